// The executor of a GPU one step behind the host against itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/ops/gemm.h"
#include "services/model/executor/segment_output.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/decode_batch.h"
#include "tests/gpu/dialogue.h"
#include "tests/model/swap_script.h"

namespace folio::model::testing {
namespace {

using kernels::cuda::DataType;

void ExpectOneStepBehindIsTheSame(bool graphs, DataType type = DataType::kBf16) {
  const RandomModel model(type == DataType::kE4M3 ? Fp8Config() : GpuConfig(), 77);
  const CudaHarnessOptions options{.max_rows = 256, .type = type, .graphs = graphs, .tune = false};
  CudaHarness alone(model, options);
  CudaHarness behind(model, options);
  ASSERT_TRUE(alone.made().ok() && behind.made().ok());
  EXPECT_EQ(behind.executor().pipeline_depth(), 1);
  Dialogue one(alone, 0);
  Dialogue other(behind, 1);
  one.Play();
  other.Play();
  EXPECT_GT(one.tokens.size(), 40u);
  EXPECT_EQ(one.tokens, other.tokens);
  EXPECT_EQ(one.logprobs, other.logprobs);
  EXPECT_EQ(one.digest, other.digest);
  ExpectSameMemory(alone, behind);
  EXPECT_EQ(GraphsOf(behind.executor()).replayed > 20, graphs);
}

TEST(CudaExecutorTest, OneStepBehindIsTheSame) { ExpectOneStepBehindIsTheSame(false); }

TEST(CudaExecutorTest, OneStepBehindIsTheSameWithGraphs) { ExpectOneStepBehindIsTheSame(true); }

TEST(CudaExecutorTest, OneStepBehindIsTheSameInFp8) {
  const absl::Status served = kernels::cuda::Gemm::CheckRowScales();
  if (!served.ok()) GTEST_SKIP() << served;
  for (const bool graphs : {false, true}) ExpectOneStepBehindIsTheSame(graphs, DataType::kE4M3);
}

TEST(CudaExecutorTest, SwappedPagesAreTheSame) {
  const RandomModel model(GpuConfig(), 21);
  for (const auto score : {kernels::ScoreKind::kNormRatio, kernels::ScoreKind::kValueNorm}) {
    CudaHarness harness(model, Options(true));
    ASSERT_TRUE(harness.made().ok());
    EXPECT_EQ(PlaySwap(harness.executor(), harness.pool(), harness.board(), score), "");
  }
}

// tests/model/clear_script.h has more cases for pages in memory of the host.
TEST(CudaExecutorTest, PagesOfOtherTenantsAreCleared) {
  constexpr uint32_t kPrompt = 5;
  const RandomModel model(GpuConfig(), 21);
  for (const bool clear : {true, false}) {
    CudaHarness harness(model, Options(true));
    ASSERT_TRUE(harness.made().ok());
    const LayerPageLists pages = harness.pool().Take(2);
    for (const PageList& layer : pages) {
      for (const PageRef& page : layer) harness.Damage(page.page);
    }
    Executor& executor = harness.executor();
    const SequenceSlot slot = executor.tables().Acquire(kernels::ScoreKind::kNone);
    executor.tables().Extend(slot, pages, clear);
    StepSegment prompt;
    prompt.slot = slot;
    prompt.prompt = true;
    for (uint32_t at = 0; at < kPrompt; ++at) prompt.tokens.emplace_back(at + 3);
    ASSERT_TRUE(executor.Collect(executor.Enqueue({{prompt}})).status.ok());
    const std::vector<kernels::bf16> memory = harness.Pages();
    const CacheGeometry& geometry = harness.board().geometry;
    const size_t row = geometry.head_dim;
    size_t cleared = 0, left = 0;
    for (const PageList& layer : pages) {
      for (uint32_t slot_of = kPrompt; slot_of < 2 * geometry.page_tokens; ++slot_of) {
        const uint32_t page = layer[slot_of / geometry.page_tokens].page.value();
        for (uint32_t head = 0; head < 2 * geometry.num_kv_heads; ++head) {
          const size_t at =
              ((size_t{page} * 2 * geometry.num_kv_heads + head) * geometry.page_tokens +
               slot_of % geometry.page_tokens) *
              row;
          for (size_t i = at; i < at + row; ++i) ++(memory[i].bits == 0 ? cleared : left);
        }
      }
    }
    EXPECT_EQ(clear ? left : cleared, 0U);
    EXPECT_GT(clear ? cleared : left, 0U);
  }
}

// The second of three sequences is damaged. Steps are collected one behind, and each feeds what the
// one before it sampled, so that the failed one is in one more step before the host knows.
std::vector<std::vector<SegmentOutput>> DecodeThree(CudaHarness& harness, bool damage) {
  DecodeBatch batch(harness, 3);
  const auto step = [&](uint32_t at) {
    StepBatch next;
    for (uint32_t i = 0; i < 3; ++i) {
      next.segments.push_back(batch.Segment(i, DecodeBatch::kPrompt + at));
      if (at == 0) next.segments.back().tokens = {TokenId(50 + i)};
    }
    return harness.executor().Enqueue(next);
  };
  const SequenceSlot second = batch.Segment(1, DecodeBatch::kPrompt).slot;
  if (damage) {
    const auto& layer = harness.executor().tables().at(second).layer(LayerIndex(0));
    harness.Damage(PageId(layer.pages[0]));
  }
  std::vector<std::vector<SegmentOutput>> outputs;
  StepTicket before = step(0);
  for (uint32_t at = 1; at < 5; ++at) {
    const StepTicket ticket = step(at);
    const StepOutput output = harness.executor().Collect(before);
    EXPECT_TRUE(output.status.ok()) << output.status;
    outputs.push_back(output.outputs);
    before = ticket;
  }
  outputs.push_back(harness.executor().Collect(before).outputs);
  EXPECT_TRUE(harness.executor().fault().ok());
  return outputs;
}

TEST(CudaExecutorTest, ADamagedPageFailsItsSequenceAlone) {
  const RandomModel model(GpuConfig(), 13);
  CudaHarness whole(model, Options(true));
  CudaHarness broken(model, Options(true));
  ASSERT_TRUE(whole.made().ok() && broken.made().ok());
  const auto expected = DecodeThree(whole, /*damage=*/false);
  const auto outputs = DecodeThree(broken, /*damage=*/true);
  ASSERT_EQ(outputs.size(), 5U);
  for (uint32_t at = 0; at < 5; ++at) {
    ASSERT_EQ(outputs[at].size(), 3U);
    EXPECT_EQ(outputs[at][1].status, NotFinite(Position(DecodeBatch::kPrompt + at + 1)));
    for (const uint32_t i : {0U, 2U}) {
      EXPECT_TRUE(outputs[at][i].status.ok()) << outputs[at][i].status;
      EXPECT_EQ(outputs[at][i].token, expected[at][i].token);
      EXPECT_EQ(outputs[at][i].logprob, expected[at][i].logprob);
    }
  }
}

// Sampled tokens of `sequences`, each of which feeds the next step; steps are collected one behind.
std::vector<std::vector<TokenId>> Continue(CudaHarness& harness,
                                           const std::vector<uint32_t>& sequences) {
  DecodeBatch batch(harness, 5, DecodeBatch::kShortPrompt);
  std::vector<std::vector<TokenId>> tokens(sequences.size());
  std::optional<StepTicket> before;
  const auto collect = [&] {
    const StepOutput output = harness.executor().Collect(*before);
    EXPECT_TRUE(output.status.ok()) << output.status;
    EXPECT_EQ(output.outputs.size(), sequences.size());
    for (size_t i = 0; i < output.outputs.size(); ++i) tokens[i].push_back(output.outputs[i].token);
  };
  for (uint32_t step = 0; step < 12; ++step) {
    StepBatch next;
    for (const uint32_t i : sequences) {
      next.segments.push_back(batch.Segment(i, DecodeBatch::kShortPrompt + step));
      if (step == 0) next.segments.back().tokens = {TokenId(50 + i)};
      next.segments.back().sampling = {1.0f, 0, 1.0f, 0, i};
    }
    const StepTicket ticket = harness.executor().Enqueue(next);
    if (before.has_value()) collect();
    before = ticket;
  }
  collect();
  return tokens;
}

TEST(CudaExecutorTest, SamplesFeedTheNextGraph) {
  const RandomModel model(GpuConfig(), 12);
  CudaHarness with(model, Options(true));
  CudaHarness without(model, Options(false));
  ASSERT_TRUE(with.made().ok() && without.made().ok());
  const auto together = Continue(with, {0, 1, 2, 3, 4});
  EXPECT_EQ(together, Continue(without, {0, 1, 2, 3, 4}));
  EXPECT_EQ(GraphsOf(with.executor()).replayed, 11u);
  ExpectSameMemory(with, without);
  if (!Emulated()) return;  // products of other shapes are rounded otherwise
  for (const uint32_t i : {0u, 4u}) {
    CudaHarness alone(model, Options(true));
    ASSERT_TRUE(alone.made().ok());
    EXPECT_EQ(Continue(alone, {i}).at(0), together[i]) << "sequence " << i;
  }
}

}  // namespace
}  // namespace folio::model::testing
