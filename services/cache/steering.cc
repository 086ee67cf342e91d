#include "services/cache/steering.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/sequence_orders.h"

namespace folio::cache {

absl::StatusOr<WorkerId> Steering::Close(SequenceId id, std::string why) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  c.AwaitDecision(id);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  const WorkerId worker = record.worker;
  if (record.orphaned()) {
    c.line_.Leave({worker, id});
    c.orphanage_.EndOrphan(id);
  } else if (!record.orders.close.has_value()) {
    SequenceOrders(**found).Close(std::move(why));
    c.preemption_.NoteOrder();
  }
  return worker;
}

absl::StatusOr<WorkerId> Steering::Park(SequenceId id) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  if (record.orphaned()) return Refuse(record, "its worker was lost, and no step runs");
  if (record.parked) return Refuse(record, "it is parked already");
  if (record.orders.close.has_value()) return Refuse(record, "an operator has ended it");
  if (record.orders.pinned) return Refuse(record, "it is pinned; unpin it first");
  if (!record.abilities.parks) return Refuse(record, "its worker cannot park sequences");
  if (!record.asked_back) {
    SequenceOrders(**found).Park();
    c.preemption_.NoteOrder();
  }
  return record.worker;
}

absl::StatusOr<WorkerId> Steering::Pin(SequenceId id) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  uint64_t needed = 0;
  for (const auto& [other, sequence] : c.sequences_) {
    const SequenceRecord& record = sequence->record();
    const bool keeps = other == id || record.orders.pinned || !record.abilities.parks;
    if (keeps) needed += record.footprint.WorstCase();
  }
  if (needed > c.pool_.total().value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "sequence ", id.value(), " and those that keep their pages already may need ", needed,
        " pages together, and the pool has ", c.pool_.total().value(), "; unpin another one"));
  }
  SequenceOrders(**found).Pin();
  if ((*found)->record().starved) c.preemption_.NoteShortage();
  return (*found)->record().worker;
}

absl::StatusOr<WorkerId> Steering::Unpin(SequenceId id) {
  Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return found.status();
  SequenceOrders(**found).Unpin();
  return (*found)->record().worker;
}

}  // namespace folio::cache
