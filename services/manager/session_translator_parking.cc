// The part of session_translator.h about sequences that give their pages back, and orphans that
// make room.
#include <utility>

#include "services/cache/parking.h"
#include "services/manager/session_translator.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"

namespace folio::manager {

void SessionTranslator::NoteEnded(const std::vector<SequenceId>& orphans) {
  constexpr const char* kWhy = "others need its pages";
  for (const SequenceId id : orphans) {
    log::Info("orphan ended", {{"sequence", id}, {"why", kWhy}});
    event_log_.Append({.kind = EventKind::kOrphanEnded, .sequence = id, .text = kWhy});
  }
}

void SessionTranslator::Park(const ParkSequence& park, SessionReply& reply) {
  const absl::StatusOr<bool> swapped =
      cache::Parking(coordinator_).Park(worker_, park.sequence, park.lease_epoch, park.swapped);
  if (!swapped.ok()) {
    reply.failed.push_back({park.sequence, swapped.status()});
    return;
  }
  Record({.kind = EventKind::kSequenceParked,
          .sequence = park.sequence,
          .text = *swapped ? "swapped" : "computed again later"});
}

void SessionTranslator::Unpark(const UnparkSequence& unpark, SessionReply& reply) {
  absl::StatusOr<cache::Unparked> unparked =
      cache::Parking(coordinator_).Unpark(worker_, unpark.sequence, unpark.lease_epoch);
  UnparkResult& result = reply.unparked.emplace_back();
  result.sequence = unpark.sequence;
  if (unparked.ok()) {
    NoteEnded(unparked->ended);
    if (unparked->swapped.empty()) result.pages = std::move(unparked->pages);
    for (cache::LayerTableInfo& table : unparked->swapped) {
      result.swapped.push_back(
          {std::move(table.pages), std::move(table.kept), std::move(table.slots)});
    }
    result.logical_length = unparked->logical_length;
    if (unparked->plan.has_value()) reply.plans.push_back(*std::move(unparked->plan));
  } else {
    result.may_fit_later = cache::MayFitLater(unparked.status());
    result.status = unparked.status();
  }
}

void SessionTranslator::Attend(SessionReply& reply) {
  cache::Attention attention = cache::Parking(coordinator_).Attend(worker_);
  NoteEnded(attention.ended);
  for (PageGrant& grant : attention.granted) reply.granted.push_back(std::move(grant));
  for (cache::OrderedClose& close : attention.close) {
    log::Info("sequence is to end",
              {{"sequence", close.sequence}, {"worker", WorkerName(worker_)}, {"why", close.why}});
    reply.failed.push_back({close.sequence, absl::AbortedError(close.why)});
  }
  reply.clear_pages = attention.clear_pages;
  reply.park = std::move(attention.park);
  reply.swap = std::move(attention.swap);
  for (const SequenceId id : reply.park) {
    log::Info("sequence asked back", {{"sequence", id},
                                      {"worker", WorkerName(worker_)},
                                      {"why", "others need its pages, or an operator asked"}});
  }
}

}  // namespace folio::manager
