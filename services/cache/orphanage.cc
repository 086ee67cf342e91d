#include "services/cache/orphanage.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace folio::cache {
namespace {

// Takes a time that does not depend on how much of the token is right, so that a caller cannot
// guess it byte by byte.
bool TokensMatch(absl::string_view own, absl::string_view shown) {
  if (own.empty() || shown.size() != own.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    difference |= static_cast<unsigned char>(own[i]) ^ static_cast<unsigned char>(shown[i]);
  }
  return difference == 0;
}

}  // namespace

uint32_t Orphanage::TakeIn(WorkerId worker, bool quiesced, absl::Time now) {
  uint32_t orphaned = 0;
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    Sequence& sequence = *it->second;
    const SequenceRecord& record = sequence.record();
    const bool lost = record.worker == worker && !record.orphaned();
    if (lost && ttl_ > absl::ZeroDuration() && record.can_be_orphaned()) {
      sequence.Orphan(now);
      ++orphaned;
    } else if (lost) {
      it = End(it, quiesced);
      continue;
    }
    ++it;
  }
  return orphaned;
}

SequenceMap::iterator Orphanage::End(SequenceMap::iterator it, bool quiesced) {
  if (quiesced) {
    it->second->Release(pool_);
  } else {
    it->second->Quarantine(pool_);
  }
  return sequences_.erase(it);
}

std::vector<SequenceId> Orphanage::EndExpired(absl::Time now) {
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

std::vector<SequenceId> Orphanage::MakeRoom(uint64_t wanted) {
  std::vector<const Sequence*> orphans;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->record().orphaned()) orphans.push_back(sequence.get());
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
  for (const SequenceId id : ended) {
    const auto it = sequences_.find(id);
    End(it, HasExited(it->second->record().worker));
  }
  return ended;
}

absl::StatusOr<Claimed> Orphanage::Claim(const ClaimRequest& request) {
  const std::string name = absl::StrCat("sequence ", request.sequence.value());
  const auto it = sequences_.find(request.sequence);
  if (it == sequences_.end()) {
    return absl::NotFoundError(
        absl::StrCat(name, " is not open: it ended, was not resumed within ",
                     absl::FormatDuration(ttl_), " of its worker's loss, made room for others, ",
                     "or was being compacted when its worker was lost; ask again from the start"));
  }
  Sequence& sequence = *it->second;
  const SequenceRecord& record = sequence.record();
  if (!TokensMatch(record.metadata.resume_token, request.resume_token)) {
    return absl::PermissionDeniedError(
        absl::StrCat("resume_token: is not the one that ", name, " was opened with"));
  }
  const uint64_t holder = record.worker.value();
  if (!record.orphaned()) {
    return absl::UnavailableError(absl::StrCat(name, " is worker ", holder,
                                               "'s, whose lease is live; if that worker is lost, "
                                               "try again when its lease has ended"));
  }
  if (!HasExited(record.worker)) {
    return absl::UnavailableError(
        absl::StrCat(name, " waits until the process of its last worker, ", holder,
                     ", has ended, which could still write its pages; try again then"));
  }
  return sequence.Claim(request.worker);
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

absl::Duration Orphanage::TimeLeft(const SequenceRecord& record, absl::Time now) const {
  if (!record.orphaned()) return absl::ZeroDuration();
  return std::max(*record.orphaned_at + ttl_ - now, absl::ZeroDuration());
}

}  // namespace folio::cache
