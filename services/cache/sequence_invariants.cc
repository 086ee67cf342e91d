#include "services/cache/sequence_invariants.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "services/cache/budgets.h"
#include "services/cache/page_needs.h"

namespace folio::cache {
namespace {

absl::Status CheckHeld(const SequenceRecord& record, size_t layer) {
  const uint64_t allowance = Budgets(record).Allowance(layer);
  const uint64_t held = record.layers[layer].pages().size();
  if (held <= allowance / record.geometry.page_tokens + Footprint::kPagesOverBudget) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat(held, " pages held with an allowance of ", allowance, " tokens"));
}

// Whether a plan waits where one is due.
absl::Status CheckPlanned(const SequenceRecord& record, size_t layer) {
  if (record.parked || record.in_prompt() || !record.policy().evicts) return absl::OkStatus();
  const uint64_t allowance = Budgets(record).Allowance(layer);
  const bool waits = record.shrinking.waits() && record.FullTokens(layer) <= allowance;
  if (!record.plan_in_flight() && !waits && record.OverBudget(layer)) {
    return absl::InternalError(absl::StrCat(record.layers[layer].resident().value(),
                                            " tokens resident, allowed ", allowance,
                                            ", and no plan"));
  }
  return absl::OkStatus();
}

// `may_lack`: it need not have all pages that its prompt should have.
absl::Status CheckTable(const SequenceRecord& record, size_t layer, bool may_lack) {
  const BlockTable& table = record.layers[layer];
  if (absl::Status s = table.CheckInvariants(); !s.ok()) return s;
  const uint64_t resident = table.resident().value();
  const uint64_t held = table.pages().size();
  const bool evicted = record.evicted_pages > 0 || record.compacted || record.compacted_before;
  const bool must_have_all = !evicted || IsWindowed(record, layer);
  if (must_have_all && resident != record.logical_length - TokensBehind(record, layer)) {
    return absl::InternalError(absl::StrCat("nothing was evicted, but ", resident, " of ",
                                            record.logical_length, " tokens are resident"));
  }
  if (resident > record.logical_length) {
    return absl::InternalError("more tokens are resident than were seen");
  }
  if (table.CountBefore(Position(record.logical_length)) < table.resident()) {
    return absl::InternalError("a position lies behind the logical length");
  }
  if (record.parked) {
    const bool swapped = record.swap.use == SwapUse::kOut;
    const bool fits = swapped ? !record.in_prompt() && !record.deciding
                              : record.logical_length == 0 && !record.plan_in_flight();
    return held == 0 && fits ? absl::OkStatus()
                             : absl::InternalError("a parked sequence has something in the pool");
  }
  if (resident > table.capacity()) {
    return absl::InternalError(absl::StrCat(resident, " tokens in pages for ", table.capacity()));
  }
  if (record.in_prompt()) {
    const uint64_t most = record.footprint.MostInPrompt(layer);
    const bool enough = may_lack || held >= PageNeeds(record).Wanted(layer);
    if (enough && held <= most) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(held, " pages held by a prompt that should have ",
                                            PageNeeds(record).Wanted(layer), " to ", most));
  }
  if (held > resident / record.geometry.page_tokens + 2) {
    return absl::InternalError(absl::StrCat(held, " pages held for ", resident, " tokens"));
  }
  const bool limited = record.policy().evicts || IsWindowed(record, layer);
  return limited ? CheckHeld(record, layer) : absl::OkStatus();
}

absl::Status CheckSwap(const SequenceRecord& record) {
  const size_t slots = record.swap.slots.size();
  size_t with_tokens = 0;
  for (const BlockTable& table : record.layers) {
    with_tokens += record.geometry.pages_for(table.resident().value());
  }
  bool fits = false;
  switch (record.swap.use) {
    case SwapUse::kNone:
      fits = slots == 0;
      break;
    case SwapUse::kOffered:
      fits = slots >= with_tokens && !record.parked && (record.told || record.orphaned());
      break;
    case SwapUse::kOut:
    case SwapUse::kIn:
      fits = slots == with_tokens && record.parked == (record.swap.use == SwapUse::kOut);
      break;
  }
  if (fits) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(slots, " swap slots for ", with_tokens,
                                          " pages with tokens, in a state that has others"));
}

absl::Status CheckQuiet(const SequenceRecord& record) {
  const uint32_t quiet = PageNeeds(record).QuietTokens();
  if (!OnlyDecodes(record) || record.quiet_tokens <= quiet) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(record.quiet_tokens, " tokens are called quiet, and ", quiet, " are"));
}

// Only a lowered budget lets a sequence have more than its budget, and only until it is reached.
absl::Status CheckShrinking(const SequenceRecord& record) {
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    if (record.cache.layer_budget(layer) > record.cache_of_prompt.layer_budget(layer)) {
      return absl::InternalError(absl::StrCat("the budget of layer ", layer, " has grown"));
    }
  }
  if (!record.shrinking.active() || (!record.in_prompt() && Budgets(record).over())) {
    return absl::OkStatus();
  }
  return absl::InternalError("it shrinks, and is not over its budget in decode");
}

absl::Status CheckPages(const SequenceRecord& record, size_t layer, const PagePool& pool,
                        std::vector<bool>& seen) {
  for (PageRef page : record.layers[layer].pages()) {
    if (!pool.IsHeld(page)) {
      return absl::InternalError(absl::StrCat(PageText(page), " is not held"));
    }
    if (seen[page.page.value()]) {
      return absl::InternalError(absl::StrCat(PageText(page), " is held twice"));
    }
    seen[page.page.value()] = true;
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const SequenceRecord& record) {
  if (record.tokens.size() < record.logical_length) {
    return absl::InternalError(absl::StrCat("records ", record.tokens.size(), " ids for ",
                                            record.logical_length, " tokens"));
  }
  return absl::OkStatus();
}

}  // namespace

bool OnlyDecodes(const SequenceRecord& record) {
  return !record.in_prompt() && !record.plan_in_flight() && !record.starved && !record.asked_back &&
         !record.parked && record.swap.use == SwapUse::kNone;
}

absl::Status CheckSequence(const Sequence& sequence, const PagePool& pool,
                           std::vector<bool>& seen) {
  const SequenceRecord& record = sequence.record();
  const std::string name = absl::StrCat("sequence ", record.id.value());
  const bool may_lack =
      record.asked_back || record.starved || record.orphaned() || record.plan_in_flight();
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    absl::Status s = CheckTable(record, layer, may_lack);
    if (s.ok()) s = CheckPlanned(record, layer);
    if (s.ok()) s = CheckPages(record, layer, pool, seen);
    if (s.ok()) continue;
    return absl::InternalError(absl::StrCat(name, " layer ", layer, ": ", s.message()));
  }
  if (absl::Status s = CheckSwap(record); !s.ok()) {
    return absl::InternalError(absl::StrCat(name, ": ", s.message()));
  }
  if (absl::Status s = CheckQuiet(record); !s.ok()) {
    return absl::InternalError(absl::StrCat(name, ": ", s.message()));
  }
  if (absl::Status s = CheckShrinking(record); !s.ok()) {
    return absl::InternalError(absl::StrCat(name, ": ", s.message()));
  }
  const uint64_t promised = PageNeeds(record).Promised();
  if (promised != sequence.reserved_pages().value()) {
    return absl::InternalError(absl::StrCat(
        name, " is promised ", sequence.reserved_pages().value(), " pages, should be ", promised));
  }
  if (absl::Status s = CheckLength(record); !s.ok()) {
    return absl::InternalError(absl::StrCat(name, ": ", s.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckContents(const SequenceRecord& record) {
  const uint64_t longest = uint64_t{record.prompt_tokens} + record.max_new_tokens;
  if (record.tokens.size() > longest + 1 || record.logical_length > longest) {
    return absl::InternalError("it is longer than it may become");
  }
  absl::Status status = CheckLength(record);
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    if (status.ok()) status = CheckTable(record, layer, /*may_lack=*/true);
  }
  if (status.ok()) status = CheckSwap(record);
  return status.ok() ? CheckShrinking(record) : status;
}

}  // namespace folio::cache
