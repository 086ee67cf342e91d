// Logits that are changed before sampling, on the executor of a GPU: one step behind the host,
// where the device counts the newest token, against a host that waits for each token.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "services/model/executor/segment_output.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/decode_batch.h"

namespace folio::model::testing {
namespace {

constexpr uint32_t kSequences = 5;
constexpr uint32_t kSteps = 14;

// The penalties of one sequence, as the host knows its tokens. Sequence 4 has none.
class Penalties {
 public:
  explicit Penalties(uint32_t sequence) : sequence_(sequence) {
    if (sequence == 3) edits_.push_back({TokenId(7), 0, false, 2.5F});
  }
  void Take(TokenId token) {
    if (sequence_ == 4) return;
    for (LogitEdit& edit : edits_) {
      if (edit.token != token) continue;
      ++edit.in_answer;
      edit.in_text = true;
      return;
    }
    edits_.push_back({token, 1, true, 0});
  }
  LogitEdits Now(bool counts_last) const {
    LogitEdits edits;
    edits.presence_penalty = 0.5F;
    edits.frequency_penalty = sequence_ == 1 ? 2.0F : 0.25F;
    edits.repetition_penalty = sequence_ == 2 ? 50.0F : 1.25F;
    edits.tokens = edits_;
    edits.counts_last = counts_last && sequence_ != 4;
    return edits;
  }

 private:
  const uint32_t sequence_;
  std::vector<LogitEdit> edits_;
};

// The tokens of each sequence. With `behind` a step is collected after the next one was enqueued.
std::vector<std::vector<TokenId>> Decode(CudaHarness& harness, bool behind, float temperature) {
  DecodeBatch batch(harness, kSequences, DecodeBatch::kShortPrompt);
  std::vector<Penalties> penalties;
  for (uint32_t i = 0; i < kSequences; ++i) penalties.emplace_back(i);
  std::vector<std::vector<TokenId>> tokens(kSequences);
  std::optional<StepTicket> before;
  const auto collect = [&] {
    if (!before.has_value()) return;
    const StepOutput output = harness.executor().Collect(*before);
    EXPECT_TRUE(output.status.ok()) << output.status;
    for (uint32_t i = 0; i < kSequences; ++i) {
      tokens[i].push_back(output.outputs.at(i).token);
      penalties[i].Take(tokens[i].back());
    }
    before.reset();
  };
  for (uint32_t step = 0; step < kSteps; ++step) {
    if (!behind) collect();
    StepBatch next;
    for (uint32_t i = 0; i < kSequences; ++i) {
      StepSegment segment = batch.Segment(i, DecodeBatch::kShortPrompt + step);
      if (step == 0) segment.tokens = {TokenId(50 + i)};
      segment.sampling = {temperature, 0, 1.0F, 0, i, {}};
      segment.edits = penalties[i].Now(before.has_value());
      segment.top_logprobs = -1;
      next.segments.push_back(segment);
    }
    const StepTicket ticket = harness.executor().Enqueue(next);
    collect();
    before = ticket;
  }
  collect();
  return tokens;
}

TEST(CudaEditsTest, ThePenaltiesOfTheNewestTokenAreTheDevices) {
  const RandomModel model(GpuConfig(), 31);
  for (const float temperature : {0.0F, 1.0F}) {
    CudaHarness waits(model), behind(model);
    CudaHarness plain(model, {.graphs = false});
    ASSERT_TRUE(waits.made().ok() && behind.made().ok() && plain.made().ok());
    const auto expected = Decode(waits, /*behind=*/false, temperature);
    EXPECT_EQ(Decode(behind, /*behind=*/true, temperature), expected);
    EXPECT_EQ(Decode(plain, /*behind=*/true, temperature), expected);
    EXPECT_GE(GraphsOf(behind.executor()).replayed, kSteps - 1);
  }
}

TEST(CudaEditsTest, AGreatRepetitionPenaltyLetsNoTokenComeTwice) {
  const RandomModel model(GpuConfig(), 31);
  CudaHarness harness(model);
  ASSERT_TRUE(harness.made().ok());
  const std::vector<TokenId> tokens = Decode(harness, /*behind=*/true, 0).at(2);
  std::set<uint32_t> different;
  for (const TokenId token : tokens) different.insert(token.value());
  EXPECT_EQ(different.size(), tokens.size());
}

TEST(CudaEditsTest, BitsSayWhichTokensMayCome) {
  const RandomModel model(GpuConfig(), 31);
  CudaHarness harness(model);
  ASSERT_TRUE(harness.made().ok());
  DecodeBatch batch(harness, 3, DecodeBatch::kShortPrompt);
  const std::vector<uint32_t> two = {0, (1U << 3) | (1U << 9)};
  const std::vector<uint32_t> none = {0};
  StepBatch step;
  for (uint32_t i = 0; i < 3; ++i) {
    step.segments.push_back(batch.Segment(i, DecodeBatch::kShortPrompt));
    step.segments.back().tokens = {TokenId(50)};
  }
  step.segments[0].edits.allowed = two;
  step.segments[1].edits.allowed = none;
  const StepOutput output = harness.executor().Collect(harness.executor().Enqueue(step));
  ASSERT_TRUE(output.status.ok()) << output.status;
  ASSERT_TRUE(output.outputs.at(0).status.ok()) << output.outputs[0].status;
  const uint32_t token = output.outputs[0].token.value();
  EXPECT_TRUE(token == 32 + 3 || token == 32 + 9) << token;
  EXPECT_EQ(output.outputs.at(1).status, NoTokenLeft());
  EXPECT_TRUE(output.outputs.at(2).status.ok()) << output.outputs[2].status;
}

}  // namespace
}  // namespace folio::model::testing
