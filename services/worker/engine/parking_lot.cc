#include "services/worker/engine/parking_lot.h"

#include <algorithm>
#include <utility>

#include "services/base/urgency.h"

namespace folio::worker {
namespace {

// The manager cannot call a worker, so a worker that lacks pages asks again and again. An answer
// takes a fraction of a millisecond, so the first pause is short.
constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(200);

SteadyTime DueTime(const Sequence& sequence) {
  const SequenceRequest& request = sequence.request();
  return Urgency{.priority = request.priority, .waited = {}}.Due(request.arrival);
}

}  // namespace

void ParkingLot::OnAskedBack(Sequence* sequence) {
  sequence->state().Park();
  if (sequence->state().phase() == Phase::kParking) ++preemptions_;
}

std::vector<Sequence*> ParkingLot::Due(uint64_t collected) const {
  std::vector<Sequence*> due;
  for (const auto& sequence : sequences_) {
    const SequenceState& state = sequence->state();
    if (state.phase() == Phase::kParking && state.progress().busy_until <= collected) {
      due.push_back(sequence.get());
    }
  }
  return due;
}

Sequence* ParkingLot::Next() const {
  Sequence* next = nullptr;
  for (const auto& sequence : sequences_) {
    if (sequence->state().phase() != Phase::kParked || sequence->submission()->paused.load()) {
      continue;
    }
    if (next == nullptr || DueTime(*sequence) < DueTime(*next)) next = sequence.get();
  }
  return next;
}

bool ParkingLot::lacks_pages() const {
  return std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& sequence) {
    const Phase phase = sequence->state().phase();
    if (phase != Phase::kDecode && phase != Phase::kPrefill) return false;
    return !sequence->submission()->paused.load() &&
           tables_.at(sequence->state().held()->slot).free_tokens() == 0;
  });
}

SteadyTime ParkingLot::NextAsk() const {
  const bool asks = (!empty() && !unparking_) || lacks_pages();
  return asks ? next_ask_ : SteadyTime::InfiniteFuture();
}

void ParkingLot::Ask(size_t places, SteadyTime now) {
  if (now < next_ask_) return;
  const Sequence* parked = unparking_ || places == 0 ? nullptr : Next();
  if (parked == nullptr && !lacks_pages()) {
    pause_ = kFirstPause;
    return;
  }
  SessionRequest request;  // without content it is still answered with the pages that there are
  if (parked != nullptr) {
    const SequenceGrant& grant = *parked->state().grant();
    request.unpark.push_back({grant.id, grant.lease_epoch});
    unparking_ = true;
  }
  next_ask_ = now + pause_;
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  link_->Send(std::move(request));
}

bool ParkingLot::OnAnswer(const UnparkResult& result) {
  unparking_ = false;
  if (!result.status.ok()) return false;
  pause_ = kFirstPause;
  OnRoom();  // for the next one
  return true;
}

}  // namespace folio::worker
