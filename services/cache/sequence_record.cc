#include "services/cache/sequence_record.h"

#include "absl/strings/str_cat.h"

namespace folio::cache {

SequenceRecord::SequenceRecord(SequenceId id, const OpenRequest& request,
                               const CacheGeometry& geometry, Admission admission,
                               SteadyTime opened)
    : id(id),
      geometry(geometry),
      cache_of_prompt(request.cache),
      metadata(request.metadata),
      tenant(request.tenant),
      priority(request.urgency.priority),
      opened(opened),
      prompt_tokens(static_cast<uint32_t>(request.prompt.size())),
      max_new_tokens(request.max_new_tokens.value()),
      admission(admission),
      arrived(opened - request.urgency.waited),
      due(request.urgency.Due(opened)),
      footprint(cache_of_prompt, geometry, prompt_tokens, max_new_tokens,
                request.abilities.prefill_ahead),
      worker(request.worker),
      abilities(request.abilities),
      tokens(request.prompt),
      layers(geometry.num_layers, BlockTable(geometry.page_tokens)),
      cache(request.cache) {}

uint32_t SequenceRecord::FullTokens(size_t layer) const {
  const uint32_t resident = layers[layer].resident().value();
  return resident - resident % geometry.page_tokens;
}

bool SequenceRecord::OverBudget(size_t layer) const {
  return !IsWindowed(*this, layer) && FullTokens(layer) > cache.layer_budget(layer).value();
}

bool SequenceRecord::AtCompaction() const {
  if (!compaction_due() || !footprint.stops().IsStop(logical_length)) return false;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const uint32_t tokens =
        IsWindowed(*this, layer) ? logical_length : layers[layer].resident().value();
    if (tokens > cache_of_prompt.layer_budget(layer).value()) return true;
  }
  return false;
}

uint64_t SequenceRecord::held_pages() const {
  uint64_t held = 0;
  for (const BlockTable& table : layers) held += table.pages().size();
  return held;
}

uint64_t PagesBehind(const SequenceRecord& record) {
  if (!record.geometry.windows.any()) return 0;
  uint64_t pages = 0;
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    pages += TokensBehind(record, layer) / record.geometry.page_tokens;
  }
  return pages;
}

std::string PageText(PageRef page) {
  return absl::StrCat("page ", page.page.value(), " generation ", page.generation.value());
}

absl::Status Refuse(const SequenceRecord& record, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("sequence ", record.id.value(), ": ", why));
}

}  // namespace folio::cache
