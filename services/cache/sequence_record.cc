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
      footprint(cache_of_prompt, geometry, prompt_tokens, max_new_tokens),
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
  return FullTokens(layer) > cache.layer_budget(layer).value();
}

bool SequenceRecord::AtCompaction() const {
  if (!compaction_due() || !footprint.stops().IsStop(logical_length)) return false;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].resident() > cache_of_prompt.layer_budget(layer)) return true;
  }
  return false;
}

uint64_t SequenceRecord::held_pages() const {
  uint64_t held = 0;
  for (const BlockTable& table : layers) held += table.pages().size();
  return held;
}

absl::Status Refuse(const SequenceRecord& record, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("sequence ", record.id.value(), ": ", why));
}

}  // namespace folio::cache
