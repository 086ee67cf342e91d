#include "services/cache/parking.h"

#include <optional>

namespace folio::cache {

absl::StatusOr<bool> Parking::Park(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch,
                                   bool swapped) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  c.AwaitDecision(id);
  absl::StatusOr<Sequence*> held = c.FindHeld(worker, id, lease_epoch, c.options_.clock->Now());
  if (!held.ok()) return held.status();
  const SequenceRecord& record = (*held)->record();
  if (!record.parked) {
    (*held)->Park(c.pool_, swapped);
    const bool kept = record.swap.use == SwapUse::kOut;
    c.observer_.OnParking(kept ? ParkingEvent::kSwappedOut : ParkingEvent::kDropped,
                          record.swap.slots.size());
  }
  return record.swap.use == SwapUse::kOut;
}

absl::StatusOr<Unparked> Parking::Unpark(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  absl::StatusOr<Sequence*> held = c.FindHeld(worker, id, lease_epoch, c.options_.clock->Now());
  if (!held.ok()) return held.status();
  if (!(*held)->record().parked) return Refuse((*held)->record(), "it is not parked");
  Unparked unparked;
  if (absl::Status s = c.Admit(**held, {worker, id}, /*waits=*/true, &unparked.ended); !s.ok()) {
    return s;
  }
  unparked.pages = c.Grant(**held, c.options_.clock->Now());
  const SequenceRecord& record = (*held)->record();
  if (record.swap.use != SwapUse::kIn) return unparked;
  c.observer_.OnParking(ParkingEvent::kSwappedIn, record.swap.slots.size());
  unparked.swapped = DescribeLayers(record);
  unparked.logical_length = TokenCount(record.logical_length);
  unparked.plan = record.plan;
  return unparked;
}

Attention Parking::Attend(WorkerId worker) {
  Coordinator& c = coordinator_;
  const SteadyTime now = c.options_.clock->Now();
  absl::MutexLock lock(&c.mu_);
  const auto lease = c.leases_.all().find(worker);
  const Preemption::Circumstances circumstances = {
      .now = now,
      .others_wait = c.line_.waits(now),
      .progress = lease == c.leases_.all().end() ? std::nullopt : lease->second.progress};
  Attention attention = c.preemption_.Attend(worker, circumstances);
  attention.clear_pages = c.pool_.clearing_.needed();
  c.observer_.OnOrphansEnded(static_cast<uint32_t>(attention.ended.size()));
  return attention;
}

}  // namespace folio::cache
