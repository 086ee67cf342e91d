// Sequences whose worker was lost: kept, claimed by another worker, or ended.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator_state.h"
#include "services/common/check.h"

namespace folio::cache {

void Coordinator::State::LeaveSequences(WorkerId worker, bool quiesced, absl::Time now) {
  AwaitDecisions(worker);
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    Sequence& sequence = *it->second;
    const bool left = sequence.worker() == worker && !sequence.orphaned_at().has_value();
    if (left && options_.orphan_ttl > absl::ZeroDuration() && sequence.can_be_orphaned()) {
      sequence.Orphan(now);
    } else if (left) {
      it = EndLeft(it, quiesced);
      continue;
    }
    ++it;
  }
}

Coordinator::State::SequenceMap::iterator Coordinator::State::EndLeft(SequenceMap::iterator it,
                                                                      bool quiesced) {
  if (quiesced) {
    it->second->Release(pool_);
  } else {
    it->second->Quarantine(pool_);
  }
  return sequences_.erase(it);
}

bool Coordinator::State::IsGone(WorkerId worker) const { return !leases_.all().contains(worker); }

std::vector<SequenceId> Coordinator::State::EndExpiredOrphans() {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  std::vector<SequenceId> ended;
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    const std::optional<absl::Time> since = it->second->orphaned_at();
    if (!since.has_value() || now - *since < options_.orphan_ttl) {
      ++it;
      continue;
    }
    ended.push_back(it->first);
    it = EndLeft(it, IsGone(it->second->worker()));
  }
  return ended;
}

std::vector<SequenceId> Coordinator::State::MakeRoom(uint64_t wanted) {
  std::vector<const Sequence*> orphans;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->orphaned_at().has_value()) orphans.push_back(sequence.get());
  }
  std::stable_sort(orphans.begin(), orphans.end(), [](const Sequence* a, const Sequence* b) {
    return *a->orphaned_at() < *b->orphaned_at();
  });
  uint64_t room = pool_.free().value() - pool_.reserved().value();
  std::vector<SequenceId> ended;
  for (const Sequence* orphan : orphans) {
    if (room >= wanted) break;
    room += orphan->reserved_pages().value();
    if (IsGone(orphan->worker())) room += orphan->held_pages();
    ended.push_back(orphan->id());
  }
  if (room < wanted) return {};
  for (const SequenceId id : ended) {
    const auto it = sequences_.find(id);
    EndLeft(it, IsGone(it->second->worker()));
  }
  return ended;
}

absl::StatusOr<Claimed> Coordinator::State::Claim(const ClaimRequest& request) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  if (absl::Status s = leases_.Renew(request.worker, now); !s.ok()) return s;
  const std::string name = absl::StrCat("sequence ", request.sequence.value());
  const absl::StatusOr<Sequence*> found = Find(request.sequence);
  if (!found.ok()) {
    return absl::NotFoundError(absl::StrCat(
        name, " is not open: it ended, was not resumed within ",
        absl::FormatDuration(options_.orphan_ttl), " of its worker's loss, made room for others, ",
        "or was being compacted when its worker was lost; ask again from the start"));
  }
  Sequence& sequence = **found;
  if (!sequence.Knows(request.resume_token)) {
    return absl::PermissionDeniedError(
        absl::StrCat("resume_token: is not the one that ", name, " was opened with"));
  }
  const uint64_t holder = sequence.worker().value();
  if (!sequence.orphaned_at().has_value()) {
    return absl::UnavailableError(absl::StrCat(name, " is worker ", holder,
                                               "'s, whose lease is live; if that worker is lost, "
                                               "try again when its lease has ended"));
  }
  if (!IsGone(sequence.worker())) {
    return absl::UnavailableError(
        absl::StrCat(name, " waits until the process of its last worker, ", holder,
                     ", has ended, which could still write its pages; try again then"));
  }
  return sequence.Claim(request.worker);
}

PageCount Coordinator::State::WithheldFor(WorkerId worker) const {
  absl::MutexLock lock(&mu_);
  if (IsGone(worker)) return PageCount(0);
  PageCount withheld = pool_.quarantined(worker);
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->worker() != worker || !sequence->orphaned_at().has_value()) continue;
    withheld += PageCount(static_cast<uint32_t>(sequence->held_pages()));
  }
  return withheld;
}

}  // namespace folio::cache
