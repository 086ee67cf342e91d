#include "services/cache/sequence_footprint.h"

#include <algorithm>

namespace folio::cache {

SequenceFootprint::SequenceFootprint(const policy::CacheConfig& cache,
                                     const CacheGeometry& geometry, uint32_t prompt_tokens,
                                     uint32_t max_new_tokens)
    : prompt_tokens_(prompt_tokens), max_new_tokens_(max_new_tokens) {
  const policy::PolicyTraits& policy = cache.policy->traits();
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    const uint64_t budget = policy.evicts ? cache.layer_budget(layer).value() : 0;
    layers_.push_back(
        {Footprint(geometry.page_tokens, budget), budget, policy.evicts && prompt_tokens > budget});
    compacts_ = compacts_ || layers_.back().compacts;
  }
  const bool streams = compacts() && cache.compaction == policy::Compaction::kStreamed;
  stops_ = PromptStops(prompt_tokens, streams ? cache.compaction_stride.value() : 0,
                       policy.prompt_scores.window);
}

uint64_t SequenceFootprint::MostInPrompt(size_t layer) const {
  const uint64_t most = std::min(prompt_tokens_, layers_[layer].budget + stops_.longest());
  return layers_[layer].footprint.ForPrompt(most, prompt_tokens_ - most + max_new_tokens_);
}

uint64_t SequenceFootprint::WorstCase() const {
  uint64_t pages = 0;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    // A compaction only shrinks a table, and all later tokens fit into the pages of the prompt.
    pages += layers_[layer].compacts
                 ? MostInPrompt(layer)
                 : layers_[layer].footprint.MaxPages(prompt_tokens_, max_new_tokens_);
  }
  return pages;
}

}  // namespace folio::cache
