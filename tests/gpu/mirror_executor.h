// Mirror runs everything on two executors and measures how far their results are apart.
#ifndef FOLIO_TESTS_GPU_MIRROR_EXECUTOR_H_
#define FOLIO_TESTS_GPU_MIRROR_EXECUTOR_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "services/model/executor/executor.h"

namespace folio::model::testing {

using kernels::ScoreKind;

// Does everything on the GPU's executor and then on the CPU's, which takes the tokens that the
// first one chose, and looks whether both say the same.
class Mirror final : public Executor {
 public:
  // Neither has a sequence yet.
  Mirror(Executor& gpu, Executor& cpu) : gpu_(gpu), cpu_(cpu), tables_(cpu.tables()) {
    tables_.KeepEdits(true);
  }

  int pipeline_depth() const override { return 0; }
  uint32_t max_rows() const override { return gpu_.max_rows(); }
  SequenceTables& tables() override { return tables_; }
  void Compact(SequenceSlot slot, const CompactAction& compact) override {
    ApplyEdits();
    gpu_.Compact(slot, compact);
    cpu_.Compact(slot, compact);
    tables_.state(slot).table.Compact(compact);
    ExpectSameTables(slot);
  }
  void Swap(const PageSwaps& swaps) override {
    gpu_.Swap(swaps);
    cpu_.Swap(swaps);
  }
  ExecutorTimes times() const override { return gpu_.times(); }

  StepTicket Enqueue(const StepBatch& batch) override {
    ApplyEdits();
    batch_ = batch;
    for (const StepSegment& segment : batch.segments) {
      const size_t tokens = std::max<size_t>(1, segment.tokens.size());
      tables_.state(segment.slot)
          .table.Advance(segment.first_position, static_cast<uint32_t>(tokens));
    }
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
    for (const StepSegment& segment : batch_.segments) ExpectSameTables(segment.slot);
    return output;
  }

  // How far log-probabilities of the outputs were apart (the largest and the sum), how many tokens
  // were not the likeliest on the CPU, and by how much at most.
  float largest = 0, sum = 0, behind = 0;
  uint32_t outputs = 0, other_tokens = 0;

 private:
  void ApplyEdits() {
    for (const TableEdit& edit : tables_.TakeEdits()) {
      for (Executor* side : {&gpu_, &cpu_}) {
        const absl::Status applied = side->tables().Apply(edit);
        EXPECT_TRUE(applied.ok()) << applied;
      }
    }
  }
  void ExpectSameTables(SequenceSlot slot) {
    const uint64_t digest = tables_.at(slot).Digest();
    EXPECT_EQ(gpu_.tables().at(slot).Digest(), digest);
    EXPECT_EQ(cpu_.tables().at(slot).Digest(), digest);
  }
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
  SequenceTables tables_;  // the tables that both sides must have
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

// The scores of two boards of one geometry.
inline Apart CompareBoards(const kernels::PoolView& one, const kernels::PoolView& other) {
  Apart scores;
  for (size_t i = 0; i < other.geometry.score_board_floats(other.num_pages); ++i) {
    scores.Add(one.scores[i], other.scores[i]);
  }
  return scores;
}

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_MIRROR_EXECUTOR_H_
