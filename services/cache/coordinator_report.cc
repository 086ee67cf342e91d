// What operators see, and the invariants of the page accounting.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator_state.h"

namespace folio::cache {

PoolInfo Coordinator::State::pool() const {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  PoolInfo info;
  info.total = pool_.total();
  info.free = pool_.free();
  info.held = pool_.held();
  info.quarantined = pool_.quarantined();
  info.reserved = pool_.reserved();
  info.sequences = static_cast<uint32_t>(sequences_.size());
  std::map<WorkerId, uint32_t> sequences_of;
  for (const auto& [id, sequence] : sequences_) {
    ++sequences_of[sequence->worker()];
    info.orphans += sequence->orphaned_at().has_value() ? 1 : 0;
  }
  for (const auto& [id, lease] : leases_.all()) {
    if (lease.fenced) continue;
    const absl::Duration left = std::max(lease.deadline - now, absl::ZeroDuration());
    info.workers.push_back({id, lease.name, sequences_of[id], left});
  }
  return info;
}

SequenceInfo Coordinator::State::Describe(const Sequence& sequence, absl::Time now) const {
  SequenceInfo info = sequence.Info(now);
  if (const std::optional<absl::Time> since = sequence.orphaned_at()) {
    info.orphan_left = std::max(*since + options_.orphan_ttl - now, absl::ZeroDuration());
  }
  return info;
}

std::vector<SequenceInfo> Coordinator::State::sequences() const {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  std::vector<SequenceInfo> infos;
  infos.reserve(sequences_.size());
  for (const auto& [id, sequence] : sequences_) infos.push_back(Describe(*sequence, now));
  return infos;
}

absl::StatusOr<SequenceDetail> Coordinator::State::sequence(SequenceId id) const {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  const absl::StatusOr<Sequence*> found = Find(id);
  if (!found.ok()) return found.status();
  return SequenceDetail{Describe(**found, now), (*found)->Layers()};
}

absl::Status Coordinator::State::CheckInvariants() const {
  absl::MutexLock lock(&mu_);
  if (absl::Status s = pool_.CheckInvariants(); !s.ok()) return s;
  std::vector<bool> seen(pool_.total().value(), false);
  uint64_t held = 0;
  uint64_t reserved = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (absl::Status s = sequence->CheckInvariants(pool_, seen); !s.ok()) return s;
    const bool live = leases_.IsLive(sequence->worker());
    if (sequence->orphaned_at().has_value()) {
      if (live || sequence->deciding() || !sequence->can_be_orphaned()) {
        return absl::InternalError(absl::StrCat("sequence ", id.value(), " is no orphan"));
      }
    } else if (!live && !leases_.IsFenced(sequence->worker())) {
      return absl::InternalError(absl::StrCat("sequence ", id.value(), " has no worker"));
    }
    held += sequence->held_pages();
    reserved += sequence->reserved_pages().value();
  }
  if (held != pool_.held().value() || reserved != pool_.reserved().value()) {
    return absl::InternalError(absl::StrCat("sequences hold ", held, " pages and are promised ",
                                            reserved, ", the pool says ", pool_.held().value(),
                                            " and ", pool_.reserved().value()));
  }
  return absl::OkStatus();
}

}  // namespace folio::cache
