// A sequence on a rig, with the tables that the executor has of it, for tests of the score board.
#ifndef FOLIO_TESTS_MODEL_SCORED_SEQUENCE_H_
#define FOLIO_TESTS_MODEL_SCORED_SEQUENCE_H_

#include <cmath>
#include <optional>
#include <vector>

#include "tests/model/executor_rig.h"
#include "tests/model/naive_llama.h"

namespace folio::model::testing {

inline constexpr uint32_t kLayers = 2, kHeads = 2;  // of TinyConfig

inline double Norm(const Numbers& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

class Scored {
 public:
  Scored(ExecutorRig& rig, kernels::ScoreKind kind, uint32_t blocks)
      : rig_(rig), slot_(rig.executor().Acquire(kind)), tables_(rig.pool().Take(blocks)) {
    rig.executor().ExtendTables(slot_, tables_);
  }

  SlotId slot() const { return slot_; }
  uint32_t resident(uint32_t layer) const {
    return rig_.executor().resident(slot_, LayerIndex(layer));
  }

  StepSegment Prompt(const Tokens& tokens, uint32_t first, uint32_t count) const {
    StepSegment segment = rig_.Prompt(slot_, Tokens(&tokens[first], &tokens[first] + count), first);
    segment.top_logprobs = -1;
    return segment;
  }
  StepSegment Decode(uint32_t token, uint32_t position) const {
    StepSegment segment = rig_.Decode(slot_, token, position);
    segment.top_logprobs = -1;
    return segment;
  }

  // The same survivors in every layer but for a shift; pages beyond them and one spare go.
  void Compact(uint32_t keep) {
    std::vector<std::vector<SlotIndex>> slots(tables_.size());
    for (uint32_t l = 0; l < tables_.size(); ++l) {
      for (uint32_t i = 0; i < keep; ++i) slots[l].emplace_back(l + 2 * i);
    }
    rig_.executor().Compact(slot_, slots, std::vector<uint32_t>(tables_.size(), 1));
  }
  // Another block of each layer.
  void DropBlocks() {
    std::vector<std::optional<BlockIndex>> blocks;
    for (uint32_t l = 0; l < tables_.size(); ++l) {
      blocks.emplace_back(BlockIndex(l));
      tables_[l].erase(tables_[l].begin() + l);
    }
    rig_.executor().DropBlocks(slot_, blocks);
  }

  // One page more for each layer.
  void Extend() {
    const std::vector<std::vector<PageRef>> more = rig_.pool().Take(1);
    for (uint32_t l = 0; l < tables_.size(); ++l) {
      tables_[l].resize(rig_.executor().pages(slot_, LayerIndex(l)));
      tables_[l].push_back(more[l][0]);
    }
    rig_.executor().ExtendTables(slot_, more);
  }

  // [slot][kv_head], up to the end of the last page in use.
  std::vector<float> Board(uint32_t layer) const {
    const kernels::PoolView& view = rig_.pool().view();
    std::vector<float> scores;
    for (uint32_t block = 0; block < view.geometry.pages_for(resident(layer)); ++block) {
      const float* page = view.page_scores(tables_[layer][block].page.value());
      scores.insert(scores.end(), page, page + view.geometry.scores_per_page());
    }
    return scores;
  }
  Numbers Key(uint32_t layer, uint32_t head, uint32_t slot) const {
    const kernels::PoolView& view = rig_.pool().view();
    const CacheGeometry& g = view.geometry;
    const kernels::bf16* key = view.keys(tables_[layer][slot / g.page_tokens].page.value()) +
                               (head * g.page_tokens + slot % g.page_tokens) * g.head_dim;
    Numbers numbers;
    for (uint32_t i = 0; i < g.head_dim; ++i) numbers.push_back(key[i].ToFloat());
    return numbers;
  }

 private:
  ExecutorRig& rig_;
  SlotId slot_;
  std::vector<std::vector<PageRef>> tables_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_SCORED_SEQUENCE_H_
