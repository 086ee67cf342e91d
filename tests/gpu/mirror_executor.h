// Two executors that do the same, and how far apart they come out.
#ifndef FOLIO_TESTS_GPU_MIRROR_EXECUTOR_H_
#define FOLIO_TESTS_GPU_MIRROR_EXECUTOR_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "services/model/executor.h"

namespace folio::model::testing {

using kernels::ScoreKind;

// Does everything on the GPU's executor and then on the CPU's, which takes the tokens that the
// first one chose, and looks whether both say the same.
class Mirror final : public Executor {
 public:
  Mirror(Executor& gpu, Executor& cpu) : gpu_(gpu), cpu_(cpu) {}

  int pipeline_depth() const override { return 0; }
  uint32_t max_rows() const override { return gpu_.max_rows(); }
  SlotId Acquire(ScoreKind score) override {
    const SlotId slot = gpu_.Acquire(score);
    EXPECT_EQ(cpu_.Acquire(score), slot);
    return slot;
  }
  void ExtendTables(SlotId slot, const std::vector<std::vector<PageRef>>& pages) override {
    gpu_.ExtendTables(slot, pages);
    cpu_.ExtendTables(slot, pages);
  }
  void Restore(SlotId slot, const std::vector<std::vector<PageRef>>& pages,
               const std::vector<std::vector<PositionRun>>& positions) override {
    gpu_.Restore(slot, pages, positions);
    cpu_.Restore(slot, pages, positions);
  }
  void Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
               const std::vector<uint32_t>& spare) override {
    gpu_.Compact(slot, keep, spare);
    cpu_.Compact(slot, keep, spare);
  }
  void DropBlocks(SlotId slot, const std::vector<std::optional<BlockIndex>>& block) override {
    gpu_.DropBlocks(slot, block);
    cpu_.DropBlocks(slot, block);
  }
  void Release(SlotId slot) override {
    gpu_.Release(slot);
    cpu_.Release(slot);
  }
  PageRef NewestPage(SlotId slot, LayerIndex layer) const override {
    EXPECT_EQ(gpu_.NewestPage(slot, layer), cpu_.NewestPage(slot, layer));
    return gpu_.NewestPage(slot, layer);
  }
  uint32_t resident(SlotId slot, LayerIndex layer) const override {
    EXPECT_EQ(gpu_.resident(slot, layer), cpu_.resident(slot, layer));
    return gpu_.resident(slot, layer);
  }
  uint32_t pages(SlotId slot, LayerIndex layer) const override {
    EXPECT_EQ(gpu_.pages(slot, layer), cpu_.pages(slot, layer));
    return gpu_.pages(slot, layer);
  }
  uint32_t free_tokens(SlotId slot) const override {
    EXPECT_EQ(gpu_.free_tokens(slot), cpu_.free_tokens(slot));
    return gpu_.free_tokens(slot);
  }
  uint64_t TableDigest(SlotId slot) const override { return gpu_.TableDigest(slot); }
  ExecutorTimes times() const override { return gpu_.times(); }

  StepTicket Enqueue(const StepBatch& batch) override {
    batch_ = batch;
    return gpu_.Enqueue(batch);
  }
  StepOutput Collect(StepTicket ticket) override {
    StepOutput output = gpu_.Collect(ticket);
    EXPECT_TRUE(output.status.ok()) << output.status;
    size_t next = 0;
    for (StepSegment& segment : batch_.segments) {
      if (!segment.want_output || next == output.outputs.size()) continue;
      EXPECT_EQ(output.outputs[next].slot, segment.slot);
      segment.target = output.outputs[next++].token;
      segment.top_logprobs = 1;
    }
    EXPECT_EQ(next, output.outputs.size());
    const StepOutput twin = cpu_.Collect(cpu_.Enqueue(batch_));
    EXPECT_EQ(twin.outputs.size(), output.outputs.size());
    for (size_t i = 0; i < twin.outputs.size(); ++i) Compare(output.outputs[i], twin.outputs[i]);
    for (const StepSegment& segment : batch_.segments) {
      EXPECT_EQ(gpu_.TableDigest(segment.slot), cpu_.TableDigest(segment.slot));
    }
    return output;
  }

  // Of the outputs: how far log-probabilities were apart, the largest and the mean; how many tokens
  // were not the likeliest on the CPU, and by how much at most.
  float largest = 0, sum = 0, behind = 0;
  uint32_t outputs = 0, other_tokens = 0;

 private:
  void Compare(const SegmentOutput& gpu, const SegmentOutput& cpu) {
    ++outputs;
    const float apart = std::abs(gpu.logprob - cpu.logprob);
    EXPECT_FALSE(std::isnan(apart));
    largest = std::max(largest, apart);
    sum += apart;
    other_tokens += cpu.top.at(0).first != gpu.token;
    behind = std::max(behind, cpu.top.at(0).second - cpu.logprob);
  }

  Executor& gpu_;
  Executor& cpu_;
  StepBatch batch_;
};

// Numbers that one side has and the other not are none; else how far they are apart.
struct Apart {
  size_t numbers = 0, missing = 0;
  double largest = 0, sum = 0;
  void Add(float a, float b) {
    missing += std::isnan(a) != std::isnan(b);
    if (std::isnan(a) || std::isnan(b)) return;
    ++numbers;
    largest = std::max(largest, double{std::abs(a - b)});
    sum += std::abs(a - b);
  }
  double mean() const { return sum / static_cast<double>(std::max<size_t>(numbers, 1)); }
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_MIRROR_EXECUTOR_H_
