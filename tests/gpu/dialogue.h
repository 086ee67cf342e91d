// Dialogue runs two sequences on the executor of a GPU, some steps behind the host. They are
// prefilled, decode, are compacted, lose blocks and are replaced.
#ifndef FOLIO_TESTS_GPU_DIALOGUE_H_
#define FOLIO_TESTS_GPU_DIALOGUE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/gpu/cuda_executor_harness.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {

using kernels::ScoreKind;

// Table edits come between the steps, whether these are done or not; samples feed the next step.
class Dialogue {
 public:
  Dialogue(Executor& executor, TestPool& pool, uint64_t depth)
      : executor_(executor), pool_(pool), depth_(depth) {}
  Dialogue(CudaHarness& harness, uint64_t depth)
      : Dialogue(harness.executor(), harness.pool(), depth) {}

  void Run(std::vector<StepSegment> segments) {
    tickets_.push_back(executor_.Enqueue({std::move(segments)}));
    while (tickets_.size() > depth_) Collect();
  }
  void Collect() {
    const StepOutput output = executor_.Collect(tickets_.front());
    tickets_.pop_front();
    EXPECT_TRUE(output.status.ok()) << output.status;
    for (const SegmentOutput& one : output.outputs) {
      tokens.push_back(one.token.value());
      logprobs.push_back(one.logprob);
    }
  }
  void Play() {
    const uint32_t vocab = 101;
    SequenceSlot a = Open(ScoreKind::kNormRatio);
    SequenceSlot b = Open(ScoreKind::kKeyDifference);
    Run({Prompt(a, 0, 20, false)});
    Run({Prompt(a, 20, 30, true), Prompt(b, 0, 35, true)});
    uint32_t at_a = 50;
    uint32_t at_b = 35;
    for (int step = 0; step < 30; ++step) {
      Extend(a);
      Extend(b);
      if (step == 3) Compact(a, 20);
      if (step == 4) Compact(b, 17);
      if (step == 5) Compact(a, 14);
      if (step == 20) executor_.tables().DropBlocks(a, {{BlockIndex(0), std::nullopt}});
      if (step == 21) executor_.tables().DropBlocks(a, {{std::nullopt, BlockIndex(0)}});
      std::vector<StepSegment> segments{Decode(a, at_a++)};
      if (step % 3 != 1) segments.push_back(Decode(b, at_b++));
      if (step == 10) Run({});  // a step of nothing is a step
      if (step == 12) {
        executor_.tables().Release(b);
        b = Open(ScoreKind::kNone);
        segments.back() = Prompt(b, 40, 25, true);
        at_b = 65;
      }
      segments.back().score_resident = step % 5 == 0 && step < 12 && segments.size() == 2;
      Run(std::move(segments));
    }
    while (!tickets_.empty()) Collect();
    EXPECT_LT(*std::max_element(tokens.begin(), tokens.end()), vocab);
    digest = executor_.tables().at(a).Digest() ^ executor_.tables().at(b).Digest();
  }

  std::vector<uint32_t> tokens;
  std::vector<float> logprobs;
  uint64_t digest = 0;

 private:
  SequenceSlot Open(ScoreKind kind) {
    const SequenceSlot slot = executor_.tables().Acquire(kind);
    executor_.tables().Extend(slot, pool_.Take(5));
    return slot;
  }
  void Extend(SequenceSlot slot) {
    if (executor_.tables().at(slot).free_tokens() > 0) return;
    executor_.tables().Extend(slot, pool_.Take(1));
  }
  void Compact(SequenceSlot slot, uint32_t keep) {
    std::vector<std::vector<TokenSlot>> slots(2);
    for (uint32_t i = 0; i < keep; ++i) {
      slots[0].emplace_back(i + i / 2);
      slots[1].emplace_back(i);
    }
    executor_.Compact(slot, {slots, {PageCount(1), PageCount(0)}});
    Extend(slot);
  }
  static StepSegment Segment(SequenceSlot slot, uint32_t position) {
    StepSegment segment;
    segment.slot = slot;
    segment.first_position = Position(position);
    segment.want_output = true;
    segment.top_logprobs = 0;
    segment.sampling.temperature = 0.8f;
    segment.sampling.seed = slot.value() + 5;
    return segment;
  }
  static StepSegment Prompt(SequenceSlot slot, uint32_t first, uint32_t count, bool ends) {
    StepSegment segment = Segment(slot, first);
    segment.prompt = true;
    segment.want_output = ends;
    for (const uint32_t token : RandomTokens(count, 101, first + 9)) {
      segment.tokens.emplace_back(token);
    }
    return segment;
  }
  static StepSegment Decode(SequenceSlot slot, uint32_t position) {
    return Segment(slot, position);
  }

  Executor& executor_;
  TestPool& pool_;
  uint64_t depth_;
  std::deque<StepTicket> tickets_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_DIALOGUE_H_
