// FlashInfer's attention over our pages against the plain family. On a GPU only.
#include "kernels/cuda/runtime/stream.h"
#include "tests/gpu/attention_harness.h"

namespace folio::kernels::cuda {
namespace {

using GpuAttentionTest = AttentionTest;

// Every group size and head_dim; decoding, prompts of the three tiles, and both together.
TEST_P(GpuAttentionTest, EqualsPlain) {
  for (uint32_t group = 1; group <= 8; ++group) {
    for (const uint32_t head_dim : {64u, 128u, 256u}) {
      const ScoreShape shape{1 + group % 3, group, head_dim, group % 4 == 0 ? 32u : 16u};
      SCOPED_TRACE(testing::Message() << "group " << group << ", head_dim " << head_dim);
      std::vector<Sequence> mixed = Decodes();
      for (const Sequence& prompt : {Sequence{1, 1}, {70, 70}, {129, 13}, {200, 65}, {66, 1}}) {
        mixed.push_back(prompt);
      }
      for (const auto& sequences :
           {Decodes(), std::vector<Sequence>{{300, 300}, {40, 9}}, {{90, 20}, {33, 12}}, mixed}) {
        Batch batch(random_, shape, sequences);
        const std::vector<float> want = Plain(batch);
        for (const uint32_t split : {0u, 8u}) Expect(want, batch, {.split_pages = split});
      }
    }
  }
}

// Windows within a page, within a tile and over several, with contexts in one part and in many.
TEST_P(GpuAttentionTest, WindowsEqualPlain) {
  std::vector<Sequence> sequences = Decodes();
  for (const Sequence& prompt : {Sequence{70, 70}, {129, 13}, {200, 65}, {66, 1}, {690, 300}}) {
    sequences.push_back(prompt);
  }
  for (const uint32_t head_dim : {64u, 128u, 256u}) {
    for (const uint32_t window : {1u, 5u, 16u, 100u, 257u, 5000u}) {
      SCOPED_TRACE(testing::Message() << "head_dim " << head_dim << ", window " << window);
      Batch batch(random_, {2, 4, head_dim, 16}, sequences, window);
      ExpectPlain(batch, {.window = window});
      ExpectPlain(batch, {.split_pages = 4, .window = window});
      Batch decodes(random_, {2, 4, head_dim, 16}, Decodes(), window);
      ExpectPlain(decodes, {.captured = true, .max_rows = 64, .window = window});
    }
  }
}

TEST_P(GpuAttentionTest, CapturedBatchesMayBeSmaller) {
  Batch batch(random_, {3, 3, 64, 16}, Decodes());
  ExpectPlain(batch, {.captured = true, .max_rows = batch.rows()});
  ExpectPlain(batch, {.captured = true, .max_rows = 64});
}

// A graph's launches differ in what the plan's memory says, and in nothing else: whether contexts
// are split is a matter of how many rows there are.
TEST_P(GpuAttentionTest, CapturedPlansOfOneShapeHaveTheSameNumbers) {
  constexpr size_t kSplit = 14;  // PrefillPlanInfo::split_kv
  for (const uint32_t rows : {1u, 4u, 300u}) {
    const AttentionOptions options{.captured = true, .max_rows = rows};
    std::vector<Sequence> most(rows, {rows > 4 ? 32u : 700u, 1});
    std::vector<Sequence> fewer(rows, {1, 1});
    fewer[0].context = 20;
    Batch one(random_, {3, 3, 64, 16}, most);
    Batch other(random_, {3, 3, 64, 16}, fewer);
    const AttentionPlan plan = Plan(one, options);
    EXPECT_EQ(plan.flashinfer, Plan(other, options).flashinfer);
    EXPECT_EQ(plan.flashinfer[kSplit], rows < 300) << "rows and KV heads of 900 fill any GPU";
    ExpectPlain(one, options);
    ExpectPlain(other, options);
  }
}

// Prompts of every tile and decode steps of every size in the memory that is said to be enough.
TEST_P(GpuAttentionTest, PartsOfAnyBatchFit) {
  const auto device = UseDevice(0);
  ASSERT_TRUE(device.ok()) << device.status();
  for (const AttentionShape& shape : {AttentionShape{9, 3, 64},
                                      {32, 8, 128},
                                      {64, 4, 128},
                                      {48, 1, 64},
                                      {96, 1, 128},
                                      {4, 4, 128},
                                      {4, 1, 256}}) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.kv_heads);
    AttentionMemory memory = this->memory();
    memory.parts_bytes = AttentionPartsBytes(shape, device->processors);
    const auto fits = [&](uint32_t runs, uint32_t rows, uint32_t pages, bool captured) {
      std::vector<int32_t> row_starts;
      for (uint32_t run = 0; run <= runs; ++run) {
        row_starts.push_back(static_cast<int32_t>(run * rows));
      }
      const std::vector<int32_t> contexts(runs, static_cast<int32_t>(pages * 16));
      for (const auto kernels : {AttentionKernels::kFa2, AttentionKernels::kFastest}) {
        const auto plan = PlanAttention(
            nullptr, {row_starts, contexts}, shape, 16,
            {.captured = captured, .max_rows = runs * rows, .kernels = kernels}, memory);
        EXPECT_TRUE(plan.ok()) << runs << " runs of " << rows << " rows: " << plan.status();
        EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
      }
    };
    for (uint32_t runs = 1; runs < 2 * device->processors; runs += 1 + runs / 8) {
      fits(runs, 1, 2000, true);
      fits(runs, 1, 2000, false);
    }
    for (const uint32_t rows : {2U, 5U, 17U, 65U, 700U, 2048U}) fits(1, rows, 8000, false);
    for (const uint32_t rows : {2U, 9U, 33U, 200U}) fits(7, rows, 900, false);
  }
}

// With a fixed split a row gives the same bits alone and in a batch.
TEST_P(GpuAttentionTest, FixedSplitsAreBatchInvariant) {
  Batch all(random_, {2, 4, 128, 16}, Decodes());
  const AttentionOptions options{.split_pages = 8};
  const Stored together = Attend(all, options);
  for (size_t i = 0; i < all.runs.size(); ++i) {
    Batch one = all;
    one.pages = {all.tables[i].begin(), all.tables[i].end()};
    one.page_starts = {0, static_cast<int32_t>(one.pages.size())};
    one.row_starts = {0, 1};
    one.last_tokens = {all.last_tokens[i]};
    one.contexts = {all.contexts[i]};
    one.q.assign(all.q.begin() + i * all.cols(), all.q.begin() + (i + 1) * all.cols());
    const Stored alone = Attend(one, options);
    for (uint32_t c = 0; c < all.cols(); ++c) {
      ASSERT_EQ(alone[c], together[i * all.cols() + c]) << "run " << i;
    }
  }
}

// Whether the device's prompts may take the Hopper kernels.
bool IsHopper() {
  const auto device = UseDevice(0);
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() && device->major == 9 && device->minor == 0;
}

// Runs that end on both sides of the ends of tiles and pages, alone and together, with and without
// a context before them.
std::vector<std::vector<Sequence>> Prompts() {
  std::vector<Sequence> ragged;
  for (uint32_t i = 0; i < 40; ++i) ragged.push_back({1 + i + i % 7 * 11, 1 + i});
  return {{{128, 128}, {1, 1}, {127, 127}, {129, 129}, {16, 16}, {17, 17}, {95, 95}, {256, 255}},
          {{513, 300}, {700, 193}, {640, 128}, {641, 1}, {400, 17}, {655, 129}, {257, 2}},
          {{1500, 260}},
          ragged};
}

// Both kinds of kernels, forced. Unused slots of pages hold NaN.
TEST_P(GpuAttentionTest, PromptsEqualPlainByEitherKernels) {
  const bool hopper = IsHopper();
  for (const uint32_t head_dim : {64u, 128u}) {
    for (const ScoreShape& shape :
         {ScoreShape{1, 1, head_dim, 16}, ScoreShape{2, 4, head_dim, 16},
          ScoreShape{3, 3, head_dim, 32}, ScoreShape{1, 12, head_dim, 16}}) {
      for (const std::vector<Sequence>& sequences : Prompts()) {
        SCOPED_TRACE(testing::Message()
                     << shape.kv_heads << " KV heads of " << head_dim << ", group " << shape.group
                     << ", first run " << sequences[0].rows << " of " << sequences[0].context);
        Batch batch(random_, shape, sequences);
        const std::vector<float> want = Plain(batch);
        Expect(want, batch, {.kernels = AttentionKernels::kFa2});
        if (hopper) {
          EXPECT_TRUE(Plan(batch, {.kernels = AttentionKernels::kHopper}).hopper);
          Expect(want, batch, {.kernels = AttentionKernels::kHopper});
        }
      }
    }
  }
}

// More tiles than the GPU has multiprocessors, so that blocks take some of several runs and heads.
TEST_P(GpuAttentionTest, LargePromptsEqualPlainByTheChosenKernels) {
  const bool hopper = IsHopper();
  for (const uint32_t head_dim : {64u, 128u}) {
    Batch batch(random_, {8, 4, head_dim, 16}, {{1020, 1020}, {1000, 960}});
    const std::vector<float> want = Plain(batch);
    EXPECT_EQ(Plan(batch, {}).hopper, hopper);
    Expect(want, batch, {});
    Expect(want, batch, {.kernels = AttentionKernels::kFa2});
  }
}

TEST_P(GpuAttentionTest, OnlyHopperTakesItsKernels) {
  const std::vector<int32_t> row_starts{0, 8192}, contexts{8192}, rows{0, 1, 2}, pages{8192, 8192};
  const AttentionShape shape{32, 8, 128};
  const auto plan = [&](const AttentionWork& work, const AttentionOptions& options) {
    auto made = PlanAttention(nullptr, work, shape, 16, options, memory());
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return made;
  };
  const auto prompt = plan({row_starts, contexts}, {});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->hopper, IsHopper());
  const auto forced = plan({row_starts, contexts}, {.kernels = AttentionKernels::kHopper});
  EXPECT_EQ(forced.status().code(),
            IsHopper() ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
  for (const AttentionOptions& options :
       {AttentionOptions{.captured = true, .max_rows = 2}, {}, {.split_pages = 64}}) {
    const auto decodes = plan({rows, pages}, options);
    ASSERT_TRUE(decodes.ok()) << decodes.status();
    EXPECT_FALSE(decodes->hopper);
  }
}

INSTANTIATE_TEST_SUITE_P(Stored, GpuAttentionTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
