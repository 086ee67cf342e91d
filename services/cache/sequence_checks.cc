#include "services/cache/sequence_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "services/cache/budgets.h"
#include "services/cache/page_needs.h"

namespace folio::cache {
namespace {

std::string Describe(PageRef page) {
  return absl::StrCat("page ", page.page.value(), " generation ", page.generation.value());
}

// The record must hold the ids of the tokens in the cache, and may hold the one sampled last.
absl::Status CheckTokens(const SequenceRecord& record, const CommitTokens& request) {
  const uint64_t length = request.logical_length.value();
  const uint64_t known = record.tokens.size() + request.sampled.size();
  // A sequence that was parked is computed again up to the tokens that the record has.
  if (request.sampled.empty() && record.tokens.size() > length) return absl::OkStatus();
  if (known == length || known == length + 1) return absl::OkStatus();
  return Refuse(record,
                absl::StrCat("sampled tokens bring the record to ", known, " ids; logical_length ",
                             length, " needs ", length, " or ", length + 1));
}

absl::Status CheckRoom(const SequenceRecord& record, uint32_t length) {
  const uint32_t growth = length - record.logical_length;
  for (const BlockTable& table : record.layers) {
    const uint64_t room = table.capacity() - table.resident().value();
    if (growth <= room) continue;
    return Refuse(record, absl::StrCat("logical_length ", length, " needs room for ", growth,
                                       " more tokens; the pages held have room for ", room));
  }
  return absl::OkStatus();
}

absl::Status CheckFilled(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t growth = request.logical_length.value() - record.logical_length;
  const uint32_t page_tokens = record.geometry.page_tokens;
  size_t named = 0;
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    const BlockTable& table = record.layers[layer];
    const uint32_t resident = table.resident().value();
    const uint32_t full_pages = (resident + growth) / page_tokens;
    if (full_pages == resident / page_tokens) continue;
    const PageRef expected = table.pages()[full_pages - 1];
    if (named == request.filled.size()) {
      return Refuse(record,
                    absl::StrCat("a page became full in layer ", layer, ": filled must name ",
                                 Describe(expected), ", got ", named, " pages"));
    }
    if (request.filled[named] != expected) {
      return Refuse(record, absl::StrCat("filled of layer ", layer, " must be ", Describe(expected),
                                         ", got ", Describe(request.filled[named])));
    }
    ++named;
  }
  if (named == request.filled.size()) return absl::OkStatus();
  return Refuse(record, absl::StrCat("filled names ", request.filled.size(), " pages, but ", named,
                                     " became full"));
}

absl::Status CheckPromptCommit(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t length = request.logical_length.value();
  if (length > record.prompt_tokens) {
    return Refuse(record,
                  absl::StrCat("logical_length ", length, " runs past the prompt's end at ",
                               record.prompt_tokens, ": commit the prompt's last chunk by itself"));
  }
  if (!request.filled.empty()) {
    return Refuse(record, "filled pages are for decode, not for the prompt");
  }
  if (length > record.logical_length && record.plan_in_flight()) {
    return Refuse(record, "its compaction waits: acknowledge the plan before the next chunk");
  }
  const uint32_t stop = record.footprint.stops().Next(record.logical_length);
  if (length > stop) {
    return Refuse(record, absl::StrCat("logical_length ", length, " runs past ", stop,
                                       ", where the prompt is compacted: commit up to there"));
  }
  if (absl::Status s = CheckRoom(record, length); !s.ok()) return s;
  if (length == record.prompt_tokens) return CheckTokens(record, request);
  if (request.sampled.empty()) return absl::OkStatus();
  return Refuse(record, absl::StrCat("sampled tokens before the prompt's end: logical_length ",
                                     length, " of ", record.prompt_tokens));
}

absl::Status CheckDecodeCommit(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t length = request.logical_length.value();
  const uint32_t growth = length - record.logical_length;
  if (growth > 0 && record.compaction_due() && record.plan_in_flight()) {
    return Refuse(record, "its compaction waits: acknowledge the plan before decoding");
  }
  // One that comes down to a lower budget decodes beside its plans in either mode.
  if (growth > 0 && record.plan_in_flight() && !record.shrinking.active() &&
      record.cache.mode == policy::EvictionMode::kSynchronous) {
    return Refuse(record,
                  "a plan waits, and eviction_mode is synchronous: acknowledge the plan first");
  }
  if (growth > record.remaining()) {
    return Refuse(record,
                  absl::StrCat("logical_length ", length, " exceeds prompt and max_new_tokens, ",
                               uint64_t{record.prompt_tokens} + record.max_new_tokens));
  }
  if (absl::Status s = CheckRoom(record, length); !s.ok()) return s;
  if (absl::Status s = CheckFilled(record, request); !s.ok()) return s;
  return CheckTokens(record, request);
}

absl::Status CheckEvictionBounds(const SequenceRecord& record, size_t layer) {
  const uint64_t allowance = Budgets(record).Allowance(layer);
  const uint64_t held = record.layers[layer].pages().size();
  if (held > allowance / record.geometry.page_tokens + Footprint::kPagesOverBudget) {
    return absl::InternalError(
        absl::StrCat(held, " pages held with an allowance of ", allowance, " tokens"));
  }
  const bool waits = record.shrinking.waits() && record.FullTokens(layer) <= allowance;
  if (!record.plan_in_flight() && !waits && record.OverBudget(layer)) {
    return absl::InternalError(absl::StrCat(record.layers[layer].resident().value(),
                                            " tokens resident, allowed ", allowance,
                                            ", and no plan"));
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const SequenceRecord& record, size_t layer) {
  const BlockTable& table = record.layers[layer];
  if (absl::Status s = table.CheckInvariants(); !s.ok()) return s;
  const uint64_t resident = table.resident().value();
  const uint64_t held = table.pages().size();
  const bool evicted = record.evicted_pages > 0 || record.compacted || record.compacted_before;
  if (!evicted && resident != record.logical_length) {
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
    const bool waits =
        record.asked_back || record.starved || record.orphaned() || record.plan_in_flight();
    const bool enough = waits || held >= PageNeeds(record).Wanted(layer);
    if (enough && held <= most) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(held, " pages held by a prompt that should have ",
                                            PageNeeds(record).Wanted(layer), " to ", most));
  }
  if (held > resident / record.geometry.page_tokens + 2) {
    return absl::InternalError(absl::StrCat(held, " pages held for ", resident, " tokens"));
  }
  return record.policy().evicts ? CheckEvictionBounds(record, layer) : absl::OkStatus();
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

// Nothing is due to the sequence except what a full page brings.
bool OnlyDecodes(const SequenceRecord& record) {
  return !record.in_prompt() && !record.plan_in_flight() && !record.starved && !record.asked_back &&
         !record.parked && record.swap.use == SwapUse::kNone;
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
      return absl::InternalError(absl::StrCat(Describe(page), " is not held"));
    }
    if (seen[page.page.value()]) {
      return absl::InternalError(absl::StrCat(Describe(page), " is held twice"));
    }
    seen[page.page.value()] = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCommit(const SequenceRecord& record, const CommitTokens& request) {
  const uint32_t length = request.logical_length.value();
  if (record.parked) return Refuse(record, "it is parked: ask for its pages before its next step");
  if (length < record.logical_length) {
    return Refuse(record, absl::StrCat("logical_length ", length, " goes backwards from ",
                                       record.logical_length));
  }
  return record.logical_length < record.prompt_tokens ? CheckPromptCommit(record, request)
                                                      : CheckDecodeCommit(record, request);
}

bool IsQuiet(const SequenceRecord& record, const CommitTokens& request) {
  const uint64_t length = request.logical_length.value();
  return OnlyDecodes(record) && length > record.logical_length &&
         length - record.logical_length <= record.quiet_tokens && request.filled.empty() &&
         CheckTokens(record, request).ok();
}

absl::Status CheckSequence(const Sequence& sequence, const PagePool& pool,
                           std::vector<bool>& seen) {
  const SequenceRecord& record = sequence.record();
  const std::string name = absl::StrCat("sequence ", record.id.value());
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    absl::Status s = CheckTable(record, layer);
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
  if (record.tokens.size() < record.logical_length) {
    return absl::InternalError(absl::StrCat(name, " records ", record.tokens.size(), " ids for ",
                                            record.logical_length, " tokens"));
  }
  return absl::OkStatus();
}

}  // namespace folio::cache
