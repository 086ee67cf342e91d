// What a commit may say, and what must always hold of a sequence.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/cache/sequence.h"

namespace folio::cache {
namespace {

std::string Describe(PageRef page) {
  return absl::StrCat("page ", page.page.value(), " generation ", page.generation.value());
}

absl::Status Broken(absl::string_view what) { return absl::InternalError(what); }

}  // namespace

absl::Status Sequence::Refuse(absl::string_view why) const {
  return absl::FailedPreconditionError(absl::StrCat("sequence ", id_.value(), ": ", why));
}

absl::Status Sequence::CheckCommit(const CommitRequest& request) const {
  const uint32_t length = request.logical_length.value();
  if (length < logical_length_) {
    return Refuse(
        absl::StrCat("logical_length ", length, " goes backwards from ", logical_length_));
  }
  return logical_length_ < prompt_tokens_ ? CheckPromptCommit(request) : CheckDecodeCommit(request);
}

absl::Status Sequence::CheckPromptCommit(const CommitRequest& request) const {
  const uint32_t length = request.logical_length.value();
  if (length > prompt_tokens_) {
    return Refuse(absl::StrCat("logical_length ", length, " runs past the prompt's end at ",
                               prompt_tokens_, ": commit the prompt's last chunk by itself"));
  }
  if (!request.filled.empty()) return Refuse("filled pages are for decode, not for the prompt");
  if (length == prompt_tokens_) return CheckRecord(request);
  if (request.sampled.empty()) return absl::OkStatus();
  return Refuse(absl::StrCat("sampled tokens before the prompt's end: logical_length ", length,
                             " of ", prompt_tokens_));
}

absl::Status Sequence::CheckDecodeCommit(const CommitRequest& request) const {
  const uint32_t length = request.logical_length.value();
  const uint32_t growth = length - logical_length_;
  if (growth > 0 && compaction_waits()) {
    return Refuse("its compaction waits: acknowledge the plan before decoding");
  }
  if (growth > 0 && plan_in_flight() && cache_.mode == policy::EvictionMode::kSynchronous) {
    return Refuse("a plan waits, and eviction_mode is synchronous: acknowledge the plan first");
  }
  if (growth > remaining()) {
    return Refuse(absl::StrCat("logical_length ", length, " exceeds prompt and max_new_tokens, ",
                               uint64_t{prompt_tokens_} + max_new_tokens_));
  }
  for (const BlockTable& table : layers_) {
    if (uint64_t{table.resident().value()} + growth > table.capacity()) {
      return Refuse(absl::StrCat("logical_length ", length, " needs room for ", growth,
                                 " more tokens; the pages held have room for ",
                                 table.capacity() - table.resident().value()));
    }
  }
  if (absl::Status s = CheckFilled(request); !s.ok()) return s;
  return CheckRecord(request);
}

absl::Status Sequence::CheckFilled(const CommitRequest& request) const {
  const uint32_t growth = request.logical_length.value() - logical_length_;
  const uint32_t page_tokens = geometry_.page_tokens;
  size_t named = 0;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const BlockTable& table = layers_[layer];
    const uint32_t resident = table.resident().value();
    const uint32_t full_pages = (resident + growth) / page_tokens;
    if (full_pages == resident / page_tokens) continue;
    const PageRef expected = table.pages()[full_pages - 1];
    if (named == request.filled.size()) {
      return Refuse(absl::StrCat("a page became full in layer ", layer, ": filled must name ",
                                 Describe(expected), ", got ", named, " pages"));
    }
    if (request.filled[named] != expected) {
      return Refuse(absl::StrCat("filled of layer ", layer, " must be ", Describe(expected),
                                 ", got ", Describe(request.filled[named])));
    }
    ++named;
  }
  if (named == request.filled.size()) return absl::OkStatus();
  return Refuse(
      absl::StrCat("filled names ", request.filled.size(), " pages, but ", named, " became full"));
}

absl::Status Sequence::CheckRecord(const CommitRequest& request) const {
  const uint64_t length = request.logical_length.value();
  const uint64_t known = tokens_.size() + request.sampled.size();
  if (known == length || known == length + 1) return absl::OkStatus();
  return Refuse(absl::StrCat("sampled tokens bring the record to ", known, " ids; logical_length ",
                             length, " needs ", length, " or ", length + 1));
}

absl::Status Sequence::CheckTable(size_t layer) const {
  const BlockTable& table = layers_[layer];
  if (absl::Status s = table.CheckInvariants(); !s.ok()) return s;
  const uint64_t resident = table.resident().value();
  const uint64_t held = table.pages().size();
  const bool evicted = evicted_pages_ > 0 || compacted_;
  if (!evicted && resident != logical_length_) {
    return Broken(absl::StrCat("nothing was evicted, but ", resident, " of ", logical_length_,
                               " tokens are resident"));
  }
  if (resident > logical_length_) return Broken("more tokens are resident than were seen");
  if (table.positions_end().value() > logical_length_) {
    return Broken("a position lies behind the logical length");
  }
  if (in_prompt()) {
    return held == PagesWanted(layer)
               ? absl::OkStatus()
               : Broken("a prompt does not hold the pages it was opened with");
  }
  if (held > resident / geometry_.page_tokens + 2) {
    return Broken(absl::StrCat(held, " pages held for ", resident, " tokens"));
  }
  if (policy_->evicts()) {
    const uint64_t budget = cache_.layer_budget(layer).value();
    if (held > budget / geometry_.page_tokens + Footprint::kPagesOverBudget) {
      return Broken(absl::StrCat(held, " pages held with a budget of ", budget, " tokens"));
    }
    if (!plan_in_flight() && FullTokens(table) > budget) {
      return Broken(absl::StrCat(resident, " tokens resident, budget ", budget, ", and no plan"));
    }
  }
  return absl::OkStatus();
}

absl::Status Sequence::CheckInvariants(const PagePool& pool, std::vector<bool>& seen) const {
  const uint64_t promised = PagesPromised();
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const BlockTable& table = layers_[layer];
    const auto broken = [&](absl::string_view what) {
      return Broken(absl::StrCat("sequence ", id_.value(), " layer ", layer, ": ", what));
    };
    if (absl::Status s = CheckTable(layer); !s.ok()) return broken(s.message());
    for (PageRef page : table.pages()) {
      if (!pool.IsHeld(page)) return broken(absl::StrCat(Describe(page), " is not held"));
      if (seen[page.page.value()]) return broken(absl::StrCat(Describe(page), " is held twice"));
      seen[page.page.value()] = true;
    }
  }
  if (promised != reservation_.count().value()) {
    return Broken(absl::StrCat("sequence ", id_.value(), " is promised ",
                               reservation_.count().value(), " pages, should be ", promised));
  }
  if (tokens_.size() < logical_length_) {
    return Broken(absl::StrCat("sequence ", id_.value(), " records ", tokens_.size(), " ids for ",
                               logical_length_, " tokens"));
  }
  return absl::OkStatus();
}

}  // namespace folio::cache
