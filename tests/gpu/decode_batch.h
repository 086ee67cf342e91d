// DecodeBatch is sequences that decode in steps of any size, on the executor of a GPU.
#ifndef FOLIO_TESTS_GPU_DECODE_BATCH_H_
#define FOLIO_TESTS_GPU_DECODE_BATCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/gpu/cuda_executor_harness.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {

// Options of executors that choose the same algorithms every time.
inline CudaHarnessOptions Options(bool graphs, uint32_t max_rows = 256) {
  return {.max_rows = max_rows, .graphs = graphs, .tune = false};
}

class DecodeBatch {
 public:
  static constexpr uint32_t kPrompt = 37;
  static constexpr uint32_t kShortPrompt = 18;  // where there are many sequences

  // `prompt` tokens of each are there.
  DecodeBatch(CudaHarness& harness, uint32_t sequences, uint32_t prompt = kPrompt)
      : harness_(harness) {
    for (uint32_t i = 0; i < sequences; ++i) {
      slots_.push_back(harness_.executor().tables().Acquire(kernels::ScoreKind::kNormRatio));
      // In chunks, as a step may have few rows.
      for (uint32_t first = 0; first < prompt; first += 10) {
        StepSegment chunk = Segment(i, first);
        chunk.prompt = true;
        chunk.want_output = false;
        for (uint32_t at = first; at < std::min(first + 10, prompt); ++at) {
          chunk.tokens.push_back(Token(i, at));
        }
        Run({chunk});
      }
    }
  }

  // A decode row of the `i`th sequence, which is fed what it sampled.
  StepSegment Segment(uint32_t i, uint32_t position) {
    if (harness_.executor().tables().at(slots_[i]).free_tokens() < 10) {
      harness_.executor().tables().Extend(slots_[i], harness_.pool().Take(1));
    }
    StepSegment segment;
    segment.slot = slots_[i];
    segment.first_position = Position(position);
    segment.want_output = true;
    segment.top_logprobs = 0;
    return segment;
  }
  static TokenId Token(uint32_t i, uint32_t at) { return TokenId((7 * i + 13 * at + 3) % 101); }

  std::vector<SegmentOutput> Run(std::vector<StepSegment> segments) {
    const StepOutput output =
        harness_.executor().Collect(harness_.executor().Enqueue({std::move(segments)}));
    EXPECT_TRUE(output.status.ok()) << output.status;
    return output.outputs;
  }

  // One token of each of the first `size` sequences, all at `position` in what they are fed, and of
  // the others nothing. Log-probabilities of what is likeliest, and of the lists that are wanted.
  std::vector<float> Step(uint32_t size, uint32_t position, int top_logprobs = 0) {
    std::vector<StepSegment> segments;
    for (uint32_t i = 0; i < size; ++i) segments.push_back(Fed(i, position, top_logprobs));
    return Logprobs(std::move(segments));
  }
  float StepOf(uint32_t i, uint32_t position) { return Logprobs({Fed(i, position, 0)}).at(0); }
  // Another sequence's, beside a token of each of these.
  void LongPrompt(uint32_t tokens) {
    const SequenceSlot slot =
        harness_.executor().tables().Acquire(kernels::ScoreKind::kWindowAttention);
    harness_.executor().tables().Extend(slot, harness_.pool().Take(tokens / 16 + 1));
    StepSegment prompt;
    prompt.slot = slot;
    prompt.prompt = true;
    prompt.window = {40, 3, 0};
    for (const uint32_t token : RandomTokens(tokens, 101, 5)) prompt.tokens.emplace_back(token);
    prompt.want_output = true;
    Run({prompt});
    harness_.executor().tables().Release(slot);
  }
  void DropBlocks(uint32_t i, const std::vector<std::optional<BlockIndex>>& blocks) {
    harness_.executor().tables().DropBlocks(slots_[i], {blocks});
  }
  // Keeps some of the sequence's tokens, not the same in each layer.
  void Compact(uint32_t i, uint32_t keep) {
    const uint32_t layers = harness_.board().geometry.num_layers;
    std::vector<std::vector<TokenSlot>> slots(layers);
    for (uint32_t at = 0; at < keep; ++at) {
      for (uint32_t l = 0; l < layers; ++l) slots[l].emplace_back(l == 0 ? at + at / 2 : at + l);
    }
    harness_.executor().Compact(slots_[i], {slots, std::vector<PageCount>(layers, PageCount(1))});
  }

 private:
  StepSegment Fed(uint32_t i, uint32_t position, int top_logprobs) {
    StepSegment segment = Segment(i, position);
    segment.tokens = {Token(i, position)};
    segment.top_logprobs = top_logprobs;
    return segment;
  }
  std::vector<float> Logprobs(std::vector<StepSegment> segments) {
    std::vector<float> logprobs;
    for (const SegmentOutput& one : Run(std::move(segments))) {
      logprobs.push_back(one.logprob);
      for (const auto& [token, logprob] : one.top) logprobs.push_back(logprob);
    }
    return logprobs;
  }

  CudaHarness& harness_;
  std::vector<SequenceSlot> slots_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_DECODE_BATCH_H_
