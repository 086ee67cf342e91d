// Layers that hold different numbers of tokens in the same number of pages, as they do after
// eviction, against the CPU. The prompt is large enough for the kernels of Hopper.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/mirror_executor.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

// Heads enough to fill a GPU, in a group that the kernel of decode rows does not serve, so that
// FlashInfer attends for these too.
ModelConfig ManyHeads() {
  ModelConfig config = GpuConfig();
  config.heads = Emulated() ? 18 : 64;
  config.context = 2000;
  return config;
}

// A sequence of the test, on both executors.
struct Talker {
  SequenceSlot slot;
  uint32_t position = 0;

  StepSegment Say(uint32_t tokens, bool prompt) {
    StepSegment segment;
    segment.slot = slot;
    segment.prompt = prompt;
    segment.first_position = Position(position);
    for (const uint32_t token : RandomTokens(tokens, 101, position + 1)) {
      segment.tokens.emplace_back(token);
    }
    segment.want_output = true;
    segment.top_logprobs = 0;
    position += tokens;
    return segment;
  }
};

Talker Start(Mirror& mirror, CudaHarness& harness, uint32_t pages) {
  const SequenceSlot slot = mirror.tables().Acquire(ScoreKind::kNone);
  mirror.tables().Extend(slot, harness.pool().Take(pages));
  return {slot};
}

// Each layer keeps other tokens, the second one `more` of them.
void Evict(Mirror& mirror, SequenceSlot slot, uint32_t keep, uint32_t more) {
  std::vector<std::vector<TokenSlot>> slots(2);
  for (uint32_t i = 0; i < keep; ++i) slots[0].emplace_back(i);
  for (uint32_t i = 0; i < keep + more; ++i) slots[1].emplace_back(i + 1);
  mirror.Compact(slot, {slots, std::vector<PageCount>(2, PageCount(0))});
  const BlockTables& table = mirror.tables().at(slot);
  ASSERT_EQ(table.pages(LayerIndex(0)), table.pages(LayerIndex(1)));
  ASSERT_NE(table.resident(LayerIndex(0)), table.resident(LayerIndex(1)));
}

// On a GPU of 9.0, the step of a chunk behind `before` tokens and a short prompt must not have
// taken the other kernels unseen.
void ExpectHopperThere(const ModelConfig& config, uint32_t rows, uint32_t before) {
  const auto device = kernels::cuda::UseDevice(0);
  ASSERT_TRUE(device.ok()) << device.status();
  if (Emulated() || device->major != 9 || device->minor != 0) return;
  const auto chunk = static_cast<int32_t>(rows);
  const std::vector<int32_t> row_starts{0, chunk, chunk + 30};
  const std::vector<int32_t> contexts{chunk + static_cast<int32_t>(before), 30};
  EXPECT_TRUE(kernels::cuda::attention::HopperIsFaster(
      {row_starts, contexts}, {config.heads, config.kv_heads, config.head_dim},
      device->processors));
}

TEST(CudaLengthsTest, LayersOfOtherLengthsInTheSamePages) {
  const ModelConfig config = ManyHeads();
  const uint32_t rows = Emulated() ? 64 : 768;
  const uint32_t keep = Emulated() ? 35 : 99;
  const RandomModel model(config, 31);
  CudaHarness harness(model, {.max_rows = 900});
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  TestPool cpu_pool(model.config(), 400);
  CpuExecutorOptions options;
  options.max_rows = 900;
  const auto cpu = *MakeCpuExecutor(model, OpsNamed("plain"), 4, cpu_pool.view(), options);
  Mirror mirror(harness.executor(), *cpu);
  const auto run = [&](std::vector<StepSegment> segments) {
    mirror.Collect(mirror.Enqueue({std::move(segments)}));
  };
  Talker one = Start(mirror, harness, rows / 16 + 1);
  run({one.Say(rows, true)});
  Evict(mirror, one.slot, keep, 5);
  mirror.tables().Extend(one.slot, harness.pool().Take(rows / 16 + 2));
  Talker other = Start(mirror, harness, 5);
  ExpectHopperThere(config, rows, keep);
  run({one.Say(rows, true), other.Say(30, true)});
  for (int step = 0; step < 4; ++step) run({one.Say(1, false), other.Say(1, false)});
  // Others again, in a prompt of more than one turn.
  Evict(mirror, one.slot, keep + 20, 3);
  mirror.tables().Extend(one.slot, harness.pool().Take(3));
  run({other.Say(20, true), one.Say(30, true)});
  EXPECT_EQ(mirror.outputs, 13u);
  EXPECT_LT(mirror.largest, 0.2f);
  Apart numbers;
  const std::vector<kernels::bf16> pages = harness.Pages();
  const auto* twins = reinterpret_cast<const kernels::bf16*>(cpu_pool.view().pages);
  for (size_t i = 0; i < pages.size(); ++i) numbers.Add(pages[i].ToFloat(), twins[i].ToFloat());
  EXPECT_EQ(numbers.missing, 0u);
  EXPECT_LT(numbers.mean(), 0.01);
}

}  // namespace
}  // namespace folio::model::testing
