#include "services/cache/sequence_footprint.h"

#include <algorithm>

namespace folio::cache {

SequenceFootprint::SequenceFootprint(const policy::CacheConfig& cache,
                                     const CacheGeometry& geometry, uint32_t prompt_tokens,
                                     uint32_t max_new_tokens, TokenCount prefill_ahead)
    : page_tokens_(geometry.page_tokens),
      prompt_tokens_(prompt_tokens),
      max_new_tokens_(max_new_tokens),
      prefill_ahead_(prefill_ahead) {
  const policy::PolicyTraits& policy = cache.policy->traits();
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    const bool windowed = geometry.windows.contains(layer);
    const uint64_t given = policy.evicts ? cache.layer_budget(layer).value() : 0;
    const uint64_t budget =
        windowed ? geometry.windows.MostFullTokens(geometry.page_tokens) : given;
    // A worker knows the budgets of layers, and not which of them a window replaces. So the prompt
    // is compacted for any of them.
    const bool over = policy.evicts && prompt_tokens > given;
    layers_.push_back(
        {Footprint(geometry.page_tokens, budget), budget, windowed, over && !windowed});
    compacts_ = compacts_ || over;
  }
  const bool streams = compacts() && cache.compaction == policy::Compaction::kStreamed;
  stops_ = PromptStops(prompt_tokens, streams ? cache.compaction_stride.value() : 0,
                       policy.prompt_scores.window);
}

bool SequenceFootprint::Widen(TokenCount prefill_ahead) {
  const bool all = prefill_ahead == TokenCount(0);
  if (prefill_ahead_ == TokenCount(0) || (!all && prefill_ahead <= prefill_ahead_)) return false;
  prefill_ahead_ = prefill_ahead;
  return std::any_of(layers_.begin(), layers_.end(), [](const Layer& one) { return one.windowed; });
}

uint64_t SequenceFootprint::MostInPrompt(size_t index) const {
  const Layer& layer = layers_[index];
  uint64_t most = layer.budget + stops_.longest();
  if (layer.windowed) {
    const uint64_t ahead =
        prefill_ahead_ == TokenCount(0) ? prompt_tokens_ : prefill_ahead_.value();
    most = layer.budget + page_tokens_ + ahead;
  }
  most = std::min(prompt_tokens_, most);
  return layer.footprint.ForPrompt(most, prompt_tokens_ - most + max_new_tokens_);
}

uint64_t SequenceFootprint::WorstCase(size_t index) const {
  const Layer& layer = layers_[index];
  const uint64_t of_all = layer.footprint.MaxPages(prompt_tokens_, max_new_tokens_);
  if (layer.windowed) return std::max(MostInPrompt(index), of_all);
  // A compaction only shrinks a table, and all later tokens fit into the pages of the prompt.
  return layer.compacts ? MostInPrompt(index) : of_all;
}

uint64_t SequenceFootprint::WorstCase() const {
  uint64_t pages = 0;
  for (size_t layer = 0; layer < layers_.size(); ++layer) pages += WorstCase(layer);
  return pages;
}

}  // namespace folio::cache
