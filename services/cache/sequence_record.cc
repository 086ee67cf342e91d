#include "services/cache/sequence_record.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace folio::cache {
namespace {

bool PromptIsOverBudget(const policy::CacheConfig& cache, uint64_t prompt_tokens, size_t layer) {
  return cache.policy->traits().evicts && prompt_tokens > cache.layer_budget(layer).value();
}

bool MustCompact(const OpenRequest& request, uint32_t layers) {
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (PromptIsOverBudget(request.cache, request.prompt.size(), layer)) return true;
  }
  return false;
}

std::vector<Footprint> MakeFootprints(const policy::CacheConfig& cache,
                                      const CacheGeometry& geometry) {
  const bool evicts = cache.policy->traits().evicts;
  std::vector<Footprint> footprints;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    footprints.emplace_back(geometry.page_tokens, evicts ? cache.layer_budget(layer).value() : 0);
  }
  return footprints;
}

}  // namespace

SequenceRecord::SequenceRecord(SequenceId id, const OpenRequest& request,
                               const CacheGeometry& geometry, absl::Time opened)
    : id(id),
      geometry(geometry),
      cache(request.cache),
      metadata(request.metadata),
      opened(opened),
      prompt_tokens(static_cast<uint32_t>(request.prompt.size())),
      max_new_tokens(request.max_new_tokens.value()),
      footprints(MakeFootprints(request.cache, geometry)),
      must_compact(MustCompact(request, geometry.num_layers)),
      worker(request.worker),
      tokens(request.prompt),
      layers(geometry.num_layers, BlockTable(geometry.page_tokens)) {}

uint32_t SequenceRecord::FullTokens(size_t layer) const {
  const uint32_t resident = layers[layer].resident().value();
  return resident - resident % geometry.page_tokens;
}

bool SequenceRecord::OverBudget(size_t layer) const {
  return FullTokens(layer) > cache.layer_budget(layer).value();
}

uint64_t SequenceRecord::PagesWanted(size_t layer) const {
  if (in_prompt()) return footprints[layer].ForPrompt(prompt_tokens, max_new_tokens);
  return footprints[layer].TargetPages(layers[layer].resident().value(), remaining());
}

uint64_t SequenceRecord::held_pages() const {
  uint64_t held = 0;
  for (const BlockTable& table : layers) held += table.pages().size();
  return held;
}

uint64_t SequenceRecord::PagesPromised() const {
  uint64_t promised = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const bool compacts = compaction_due() && PromptIsOverBudget(cache, prompt_tokens, layer);
    const uint64_t needed =
        compacts ? footprints[layer].ForPrompt(prompt_tokens, max_new_tokens)
                 : footprints[layer].MaxPages(layers[layer].resident().value(), remaining());
    const uint64_t held = layers[layer].pages().size();
    promised += std::max(needed, held) - held;
  }
  return promised;
}

absl::Status Refuse(const SequenceRecord& record, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("sequence ", record.id.value(), ": ", why));
}

uint64_t WorstCasePages(const OpenRequest& request, const CacheGeometry& geometry) {
  const uint64_t prompt = request.prompt.size();
  const uint64_t remaining = request.max_new_tokens.value();
  const std::vector<Footprint> footprints = MakeFootprints(request.cache, geometry);
  uint64_t pages = 0;
  for (size_t layer = 0; layer < footprints.size(); ++layer) {
    // A compaction only shrinks a table, and all later tokens fit into the pages of the prompt.
    pages += PromptIsOverBudget(request.cache, prompt, layer)
                 ? footprints[layer].ForPrompt(prompt, remaining)
                 : footprints[layer].MaxPages(prompt, remaining);
  }
  return pages;
}

}  // namespace folio::cache
