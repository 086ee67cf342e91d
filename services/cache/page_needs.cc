#include "services/cache/page_needs.h"

#include <algorithm>

#include "services/cache/budgets.h"

namespace folio::cache {

uint64_t PageNeeds::Wanted(size_t layer) const {
  return Wanted(layer, record_.layers[layer].resident().value());
}

uint64_t PageNeeds::Wanted(size_t layer, uint32_t resident) const {
  if (!record_.in_prompt()) {
    return Budgets(record_).FootprintOf(layer).TargetPages(resident, record_.remaining());
  }
  const Footprint& footprint = record_.footprint.layer(layer);
  const uint32_t ahead = record_.abilities.prefill_ahead.value();
  uint64_t until = record_.footprint.stops().Next(record_.logical_length);
  if (ahead > 0) until = std::min(until, uint64_t{record_.logical_length} + ahead);
  const uint64_t tokens = resident + (until - record_.logical_length);
  return until == record_.prompt_tokens ? footprint.ForPrompt(tokens, record_.max_new_tokens)
                                        : footprint.ForPromptPart(tokens);
}

uint64_t PageNeeds::Lacking() const {
  uint64_t lacking = 0;
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    const uint64_t held = record_.layers[layer].pages().size();
    lacking += std::max(Wanted(layer), held) - held;
  }
  return lacking;
}

uint32_t PageNeeds::QuietTokens() const {
  const uint32_t page_tokens = record_.geometry.page_tokens;
  uint64_t most = record_.remaining();
  for (const BlockTable& table : record_.layers) {
    const uint64_t resident = table.resident().value();
    const uint64_t in_page = page_tokens - 1 - resident % page_tokens;
    // A sequence that is to be swapped in has no pages yet.
    most = std::min({most, in_page, std::max(table.capacity(), resident) - resident});
  }
  return static_cast<uint32_t>(most);
}

uint64_t PageNeeds::ToPromise() const {
  const bool optimistic = record_.admission == Admission::kOptimistic;
  if (optimistic && !record_.in_prompt()) {
    // A swapped sequence needs the pages that it had. None is promised beyond them.
    return record_.swap.use == SwapUse::kOut ? Lacking() : 0;
  }
  uint64_t promised = 0;
  const bool compaction_due = record_.compaction_due();
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    const bool compacts = compaction_due && record_.footprint.compacts(layer);
    uint64_t needed = 0;
    if (optimistic || compacts || (IsWindowed(record_, layer) && record_.in_prompt())) {
      needed = record_.footprint.MostInPrompt(layer);
    }
    if (!optimistic && !compacts) {
      const uint64_t later = Budgets(record_).FootprintOf(layer).MaxPages(
          record_.layers[layer].resident().value(), record_.remaining());
      needed = std::max(needed, later);
    }
    const uint64_t held = record_.layers[layer].pages().size();
    promised += std::max(needed, held) - held;
  }
  return promised;
}

}  // namespace folio::cache
