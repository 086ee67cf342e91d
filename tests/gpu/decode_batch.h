// Sequences that decode in steps of as many as are asked for, on the executor of a GPU.
#ifndef FOLIO_TESTS_GPU_DECODE_BATCH_H_
#define FOLIO_TESTS_GPU_DECODE_BATCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/gpu/cuda_executor_rig.h"
#include "tests/model/executor_rig.h"

namespace folio::model::testing {

// Of executors that choose alike.
inline CudaRigOptions Options(bool graphs, uint32_t max_rows = 256) {
  return {.max_rows = max_rows, .graphs = graphs, .tune = false};
}

class DecodeBatch {
 public:
  static constexpr uint32_t kPrompt = 37;
  static constexpr uint32_t kShortPrompt = 18;  // where there are many sequences

  // `prompt` tokens of each are there.
  DecodeBatch(CudaRig& rig, uint32_t sequences, uint32_t prompt = kPrompt) : rig_(rig) {
    for (uint32_t i = 0; i < sequences; ++i) {
      slots_.push_back(rig_.executor().Acquire(kernels::ScoreKind::kNormRatio));
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
    if (rig_.executor().free_tokens(slots_[i]) < 10) {
      rig_.executor().ExtendTables(slots_[i], rig_.pool().Take(1));
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
        rig_.executor().Collect(rig_.executor().Enqueue({std::move(segments)}));
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
    const SlotId slot = rig_.executor().Acquire(kernels::ScoreKind::kWindowAttention);
    rig_.executor().ExtendTables(slot, rig_.pool().Take(tokens / 16 + 1));
    StepSegment prompt;
    prompt.slot = slot;
    prompt.prompt = true;
    prompt.window = {40, 3, 0};
    for (const uint32_t token : RandomTokens(tokens, 101, 5)) prompt.tokens.emplace_back(token);
    prompt.want_output = true;
    Run({prompt});
    rig_.executor().Release(slot);
  }
  void DropBlocks(uint32_t i, const std::vector<std::optional<BlockIndex>>& blocks) {
    rig_.executor().DropBlocks(slots_[i], blocks);
  }
  // Keeps some of the sequence's tokens, not the same in each layer.
  void Compact(uint32_t i, uint32_t keep) {
    const uint32_t layers = rig_.board().geometry.num_layers;
    std::vector<std::vector<SlotIndex>> slots(layers);
    for (uint32_t at = 0; at < keep; ++at) {
      for (uint32_t l = 0; l < layers; ++l) slots[l].emplace_back(l == 0 ? at + at / 2 : at + l);
    }
    rig_.executor().Compact(slots_[i], slots, std::vector<uint32_t>(layers, 1));
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

  CudaRig& rig_;
  std::vector<SlotId> slots_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_DECODE_BATCH_H_
