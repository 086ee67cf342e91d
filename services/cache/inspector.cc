#include "services/cache/inspector.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "services/cache/budgets.h"
#include "services/cache/sequence_invariants.h"

namespace folio::cache {
namespace {

SequenceState StateOf(const SequenceRecord& record) {
  if (record.orphaned()) return SequenceState::kOrphaned;
  if (record.parked) return SequenceState::kParked;
  if (record.plan_in_flight()) return SequenceState::kEvicting;
  return record.logical_length < record.prompt_tokens ? SequenceState::kPrefill
                                                      : SequenceState::kDecode;
}

SequenceInfo Describe(const Sequence& sequence, const Orphanage& orphanage, SteadyTime now) {
  const SequenceRecord& record = sequence.record();
  SequenceInfo info;
  info.id = record.id;
  info.worker = record.worker;
  info.label = record.metadata.label;
  info.tenant = record.tenant;
  info.state = StateOf(record);
  info.cache = record.cache;
  info.prompt_tokens = TokenCount(record.prompt_tokens);
  info.max_new_tokens = TokenCount(record.max_new_tokens);
  info.logical_length = TokenCount(record.logical_length);
  TokenCount shortest(record.logical_length);
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    const TokenCount resident = record.layers[layer].resident();
    info.resident = std::max(info.resident, resident);
    if (!IsWindowed(record, layer)) shortest = std::min(shortest, resident);
  }
  info.held_pages = PageCount(static_cast<uint32_t>(record.held_pages()));
  info.reserved_pages = sequence.reserved_pages();
  info.needed_pages = PageCount(static_cast<uint32_t>(Budgets(record).WorstCase()));
  info.swap_slots = static_cast<uint32_t>(record.swap.slots.size());
  info.evicted_tokens = TokenCount(record.logical_length) - shortest;
  info.evicted_pages = PageCount(static_cast<uint32_t>(record.evicted_pages));
  info.pages_behind = PageCount(static_cast<uint32_t>(PagesBehind(record)));
  info.plan_epoch = record.last_plan;
  info.lease_epoch = record.lease_epoch;
  info.age = now - record.opened;
  info.orphan_left = orphanage.TimeLeft(record, now);
  info.priority = record.priority;
  info.pinned = record.orders.pinned;
  info.closing = record.orders.close.has_value();
  info.resumable = record.can_be_orphaned();
  return info;
}

// Each sequence has a worker that may still use it, or is an orphan that can be claimed.
absl::Status CheckHolder(const SequenceRecord& record, const LeaseTable& leases) {
  const bool live = leases.IsLive(record.worker);
  if (record.orphaned()) {
    const bool claimable = !live && !record.deciding && record.can_be_orphaned() &&
                           record.fruitless_claims < kMaxFruitlessClaims;
    if (claimable) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("sequence ", record.id.value(), " cannot be an orphan"));
  }
  if (live || leases.IsFenced(record.worker)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("sequence ", record.id.value(), " has no worker"));
}

}  // namespace

PoolInfo Inspector::pool() const {
  const Coordinator& c = coordinator_;
  const SteadyTime now = c.options_.clock->Now();
  absl::MutexLock lock(&c.mu_);
  PoolInfo info;
  info.total = c.pool_.total();
  info.free = c.pool_.free();
  info.held = c.pool_.held();
  info.quarantined = c.pool_.quarantined();
  info.reserved = c.pool_.reserved();
  info.swap_slots = c.swap_.total();
  info.free_swap_slots = c.swap_.free();
  info.quarantined_swap_slots = c.swap_.quarantined();
  info.sequences = static_cast<uint32_t>(c.sequences_.size());
  info.given_up = c.orphanage_.given_up();
  info.window_pages = c.window_pages_;
  std::map<WorkerId, uint32_t> sequences_by_worker;
  for (const auto& [id, sequence] : c.sequences_) {
    ++sequences_by_worker[sequence->record().worker];
    ++info.sequences_by_state[static_cast<size_t>(StateOf(sequence->record()))];
  }
  for (const auto& [id, lease] : c.leases_.all()) {
    if (lease.fenced) continue;
    const absl::Duration left = std::max(lease.deadline - now, absl::ZeroDuration());
    info.workers.push_back({id, lease.name, sequences_by_worker[id], left, lease.progress});
  }
  return info;
}

std::vector<SequenceInfo> Inspector::sequences() const {
  const Coordinator& c = coordinator_;
  const SteadyTime now = c.options_.clock->Now();
  absl::MutexLock lock(&c.mu_);
  std::vector<SequenceInfo> infos;
  infos.reserve(c.sequences_.size());
  for (const auto& [id, sequence] : c.sequences_) {
    infos.push_back(Describe(*sequence, c.orphanage_, now));
  }
  return infos;
}

absl::StatusOr<SequenceDetail> Inspector::sequence(SequenceId id) const {
  const Coordinator& c = coordinator_;
  const SteadyTime now = c.options_.clock->Now();
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  const auto& plans = record.history.plans();
  return SequenceDetail{Describe(**found, c.orphanage_, now),
                        DescribeLayers(record),
                        {plans.begin(), plans.end()},
                        now};
}

std::vector<std::string> Inspector::WaitingTenants() const {
  const SteadyTime now = coordinator_.options_.clock->Now();
  absl::MutexLock lock(&coordinator_.mu_);
  return coordinator_.line_.WaitingTenants(now);
}

std::vector<SequenceId> Inspector::NewestGivenUp(uint64_t count) const {
  absl::MutexLock lock(&coordinator_.mu_);
  return coordinator_.orphanage_.NewestGivenUp(count);
}

absl::Status Inspector::CheckInvariants() const {
  const Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  if (absl::Status s = c.pool_.CheckInvariants(); !s.ok()) return s;
  std::vector<bool> seen(c.pool_.total().value(), false);
  uint64_t held = 0;
  uint64_t reserved = 0;
  std::vector<const SwapSlots*> slots;
  for (const auto& [id, sequence] : c.sequences_) {
    if (absl::Status s = CheckSequence(*sequence, c.pool_, seen); !s.ok()) return s;
    if (absl::Status s = CheckHolder(sequence->record(), c.leases_); !s.ok()) return s;
    held += sequence->record().held_pages();
    reserved += sequence->reserved_pages().value();
    slots.push_back(&sequence->record().swap.slots);
  }
  if (held != c.pool_.held().value() || reserved != c.pool_.reserved().value()) {
    return absl::InternalError(absl::StrCat("sequences hold ", held, " pages and are promised ",
                                            reserved, ", the pool says ", c.pool_.held().value(),
                                            " and ", c.pool_.reserved().value()));
  }
  return c.swap_.CheckInvariants(slots);
}

}  // namespace folio::cache
