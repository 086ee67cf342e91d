// ScoredSequence is a sequence on a harness, with the block tables that the executor has for it. It
// serves tests of the score board.
#ifndef FOLIO_TESTS_MODEL_SCORED_SEQUENCE_H_
#define FOLIO_TESTS_MODEL_SCORED_SEQUENCE_H_

#include <cmath>
#include <optional>
#include <vector>

#include "tests/model/executor_harness.h"
#include "tests/model/naive_model.h"

namespace folio::model::testing {

inline constexpr uint32_t kLayers = 2, kHeads = 2;  // of TinyConfig

inline double Norm(const Numbers& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

class Scored {
 public:
  Scored(ExecutorHarness& harness, kernels::ScoreKind kind, uint32_t blocks)
      : harness_(harness),
        slot_(harness.executor().tables().Acquire(kind)),
        tables_(harness.pool().Take(blocks)) {
    harness.executor().tables().Extend(slot_, tables_);
  }

  SequenceSlot slot() const { return slot_; }
  uint32_t resident(uint32_t layer) const {
    return harness_.executor().tables().at(slot_).resident(LayerIndex(layer));
  }

  StepSegment Prompt(const Tokens& tokens, uint32_t first, uint32_t count) const {
    StepSegment segment =
        harness_.Prompt(slot_, Tokens(&tokens[first], &tokens[first] + count), first);
    segment.top_logprobs = -1;
    return segment;
  }
  StepSegment Decode(uint32_t token, uint32_t position) const {
    StepSegment segment = harness_.Decode(slot_, token, position);
    segment.top_logprobs = -1;
    return segment;
  }

  // Every layer keeps the same survivors, shifted by its number. All pages behind them are dropped,
  // except one spare.
  void Compact(uint32_t keep) {
    std::vector<std::vector<TokenSlot>> slots(tables_.size());
    for (uint32_t l = 0; l < tables_.size(); ++l) {
      for (uint32_t i = 0; i < keep; ++i) slots[l].emplace_back(l + 2 * i);
    }
    harness_.executor().Compact(slot_,
                                {slots, std::vector<PageCount>(tables_.size(), PageCount(1))});
  }
  // Another block of each layer.
  void DropBlocks() {
    std::vector<std::optional<BlockIndex>> blocks;
    for (uint32_t l = 0; l < tables_.size(); ++l) {
      blocks.emplace_back(BlockIndex(l));
      tables_[l].erase(tables_[l].begin() + l);
    }
    harness_.executor().tables().DropBlocks(slot_, {blocks});
  }

  // One page more for each layer.
  void Extend() {
    const std::vector<std::vector<PageRef>> more = harness_.pool().Take(1);
    for (uint32_t l = 0; l < tables_.size(); ++l) {
      tables_[l].resize(harness_.executor().tables().at(slot_).pages(LayerIndex(l)));
      tables_[l].push_back(more[l][0]);
    }
    harness_.executor().tables().Extend(slot_, more);
  }

  // [slot][kv_head], up to the end of the last page in use.
  std::vector<float> Board(uint32_t layer, uint32_t channel = 0) const {
    const kernels::PoolView& view = harness_.pool().view();
    std::vector<float> scores;
    for (uint32_t block = 0; block < view.geometry.pages_for(resident(layer)); ++block) {
      const float* page = view.page_scores(tables_[layer][block].page.value(), channel);
      scores.insert(scores.end(), page, page + view.geometry.scores_per_page());
    }
    return scores;
  }
  Numbers Key(uint32_t layer, uint32_t head, uint32_t slot) const {
    const kernels::PoolView& view = harness_.pool().view();
    const CacheGeometry& g = view.geometry;
    const kernels::bf16* key = view.keys(tables_[layer][slot / g.page_tokens].page.value()) +
                               (head * g.page_tokens + slot % g.page_tokens) * g.head_dim;
    Numbers numbers;
    for (uint32_t i = 0; i < g.head_dim; ++i) numbers.push_back(key[i].ToFloat());
    return numbers;
  }

 private:
  ExecutorHarness& harness_;
  SequenceSlot slot_;
  std::vector<std::vector<PageRef>> tables_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_SCORED_SEQUENCE_H_
