#include "services/cache/orphanage.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/base/secrets_match.h"

namespace folio::cache {

TakenIn Orphanage::TakeIn(WorkerId worker, bool quiesced, SteadyTime now) {
  TakenIn taken;
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    Sequence& sequence = *it->second;
    const SequenceRecord& record = sequence.record();
    if (record.worker != worker || record.orphaned()) {
      if (quiesced && record.worker == worker) sequence.MakeClaimable(now, pool_);
      ++it;
      continue;
    }
    const bool resumable = ttl_ > absl::ZeroDuration() && record.can_be_orphaned();
    const bool spent = record.fruitless_claims >= kMaxFruitlessClaims;
    if (resumable && !spent) {
      sequence.Orphan(now, pool_, quiesced);
      if (quiesced) sequence.MakeClaimable(now, pool_);
      ++taken.orphaned;
      ++it;
      continue;
    }
    if (resumable) {
      RememberGivenUp(record.id);
      ++taken.given_up;
    }
    it = End(it, quiesced);
  }
  return taken;
}

void Orphanage::RememberGivenUp(SequenceId id) {
  ++given_up_;
  remembered_.push_back(id);
  if (remembered_.size() > kRemembered) remembered_.pop_front();
}

std::vector<SequenceId> Orphanage::NewestGivenUp(uint64_t count) const {
  const auto shown = static_cast<ptrdiff_t>(std::min<uint64_t>(count, remembered_.size()));
  return {remembered_.end() - shown, remembered_.end()};
}

SequenceMap::iterator Orphanage::End(SequenceMap::iterator it, bool quiesced) {
  it->second->GiveUpPages(pool_, quiesced);
  if (journal_ != nullptr) journal_->OnEnd(it->first);
  return sequences_.erase(it);
}

void Orphanage::EndOrphan(SequenceId id) {
  const auto it = sequences_.find(id);
  End(it, HasExited(it->second->record().worker));
}

std::vector<SequenceId> Orphanage::EndExpired(SteadyTime now) {
  std::vector<SequenceId> ended;
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    const SequenceRecord& record = it->second->record();
    if (!record.orphaned() || now - *record.orphaned_at < ttl_) {
      ++it;
      continue;
    }
    ended.push_back(it->first);
    it = End(it, HasExited(record.worker));
  }
  return ended;
}

uint64_t Orphanage::PagesInGrace(SteadyTime now) const {
  uint64_t pages = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (!InGrace(sequence->record(), now)) continue;
    pages += sequence->record().held_pages() + sequence->reserved_pages().value();
  }
  return pages;
}

std::vector<SequenceId> Orphanage::MakeRoom(uint64_t wanted, SteadyTime now) {
  std::vector<const Sequence*> orphans;
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    if (record.orphaned() && !record.parked && !InGrace(record, now))
      orphans.push_back(sequence.get());
  }
  std::stable_sort(orphans.begin(), orphans.end(), [](const Sequence* a, const Sequence* b) {
    return *a->record().orphaned_at < *b->record().orphaned_at;
  });
  uint64_t room = pool_.free().value() - pool_.reserved().value();
  std::vector<SequenceId> ended;
  for (const Sequence* orphan : orphans) {
    if (room >= wanted) break;
    const SequenceRecord& record = orphan->record();
    room += orphan->reserved_pages().value();
    if (HasExited(record.worker)) room += record.held_pages();
    ended.push_back(record.id);
  }
  if (room < wanted) return {};
  for (const SequenceId id : ended) EndOrphan(id);
  return ended;
}

absl::StatusOr<Sequence*> Orphanage::FindClaimable(const ClaimRequest& request) const {
  const std::string name = absl::StrCat("sequence ", request.sequence.value());
  const auto it = sequences_.find(request.sequence);
  if (it == sequences_.end()) {
    if (std::find(remembered_.begin(), remembered_.end(), request.sequence) != remembered_.end()) {
      return absl::AbortedError(absl::StrCat(
          name, " has ended, because ", kMaxFruitlessClaims, " workers in a row were lost after ",
          "they claimed it and before it made progress, so it might end others too; look into ",
          "their logs before you ask again from the start"));
    }
    return absl::NotFoundError(absl::StrCat(
        name, " is not open: it ended, was not resumed within ", absl::FormatDuration(ttl_),
        " of its worker's loss, or made room for others; ", "ask again from the start"));
  }
  Sequence& sequence = *it->second;
  const SequenceRecord& record = sequence.record();
  if (!SecretsMatch(record.metadata.resume_token, request.resume_token)) {
    return absl::PermissionDeniedError(
        absl::StrCat("resume_token: is not the one that ", name, " was opened with"));
  }
  // Its name is not told, because the caller may not know it.
  if (request.tenant.has_value() && *request.tenant != record.tenant) {
    return absl::PermissionDeniedError(
        absl::StrCat("resume: ", name, " was opened by another tenant"));
  }
  const uint64_t holder = record.worker.value();
  if (!record.orphaned()) {
    return absl::UnavailableError(absl::StrCat(name, " is worker ", holder,
                                               "'s, whose lease is live; if that worker is lost, "
                                               "try again when its lease has ended"));
  }
  // One that this worker cannot swap in is computed again.
  const bool again = record.swap.use == SwapUse::kOut && !request.abilities.swaps;
  const bool compacts = record.compaction_due() || (again && record.footprint.compacts());
  if (compacts && record.cache.compaction == policy::Compaction::kStreamed &&
      !request.abilities.streams) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " has a prompt that is compacted while it is prefilled, which this ",
                     "worker is too old for: resume it at a worker of version 0.2 or later"));
  }
  // A parked sequence has no pages that the old process could write.
  if (!HasExited(record.worker) && !record.parked) {
    return absl::UnavailableError(
        absl::StrCat(name, " waits until the process of its last worker, ", holder,
                     ", has ended, which could still write its pages; try again then"));
  }
  return &sequence;
}

PageCount Orphanage::PagesBlockedBy(WorkerId worker) const {
  if (HasExited(worker)) return PageCount(0);
  PageCount blocked = pool_.quarantined(worker);
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    if (record.worker != worker || !record.orphaned()) continue;
    blocked += PageCount(static_cast<uint32_t>(record.held_pages()));
  }
  return blocked;
}

absl::Duration Orphanage::TimeLeft(const SequenceRecord& record, SteadyTime now) const {
  if (!record.orphaned()) return absl::ZeroDuration();
  return std::max(*record.orphaned_at + ttl_ - now, absl::ZeroDuration());
}

}  // namespace folio::cache
