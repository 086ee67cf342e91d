// The part of manager_session.h about sequences that give their pages back and continue later.
#include <algorithm>
#include <optional>
#include <utility>

#include "services/worker/engine/claim_record.h"
#include "services/worker/engine/manager_session.h"

namespace folio::worker {

void ManagerSession::AddParks(SessionRequest* request) {
  for (Sequence* sequence : parking_.Due(steps_->collected)) {
    const SequenceGrant& grant = *sequence->state().grant();
    const auto of_it = [&](const DueAck& due) { return due.ack.sequence == grant.id; };
    if (swap_.Waits(grant.id)) {
      // A plan that was carried out is acknowledged first, so that the manager's tables are those
      // of the copies.
      if (std::any_of(due_acks_.begin(), due_acks_.end(), of_it)) continue;
      sequence->state().Park(swap_.CopyOut(grant.id, TableOf(*sequence), steps_->enqueued));
      if (sequence->state().progress().busy_until > steps_->collected) continue;
    }
    request->park.push_back({grant.id, grant.lease_epoch, swap_.Take(grant.id)});
    // The manager forgets a plan that was not acknowledged, or gives it again.
    std::erase_if(due_acks_, of_it);
    tables().Release(sequence->state().held()->slot);
    sequence->state().OnParked();
    if (const auto& trace = sequence->request().trace) trace->OnPark(true, SteadyNow());
  }
}

absl::Status ManagerSession::Restore(Sequence* sequence, const ScorePlan& scores,
                                     const ClaimResult& record) {
  const bool swapped = std::any_of(record.layers.begin(), record.layers.end(),
                                   [](const ClaimedLayer& layer) { return !layer.slots.empty(); });
  if (swapped) {
    absl::Status valid = swap_.Validate(record.layers, options_.geometry);
    if (!valid.ok()) return valid;
  }
  const model::SequenceSlot slot = tables().Acquire(scores.kind);
  tables().Restore(slot, record.layers, clears_pages_);
  const uint64_t busy_until = swapped ? swap_.CopyIn(record.layers, steps_->enqueued) : 0;
  sequence->state().Begin({slot, scores}, sequence->request().prompt_tokens(),
                          record.logical_length.value(), busy_until);
  return absl::OkStatus();
}

absl::Status ManagerSession::GoOn(Sequence* sequence, UnparkResult result) {
  const SequenceState& state = sequence->state();
  if (result.logical_length != TokenCount(state.progress().committed)) {
    return absl::InternalError("the manager swapped the sequence at another length");
  }
  ClaimResult record;
  record.layers = std::move(result.swapped);
  record.logical_length = result.logical_length;
  record.prompt_tokens = TokenCount(sequence->request().prompt_tokens());
  const PromptStops stops =
      StopsOf(state.grant()->cache, state.scores(), record.prompt_tokens.value());
  absl::Status valid =
      ValidateTables(record, options_.geometry, options_.num_pages, stops, prefill_ahead().value());
  if (!valid.ok()) return valid;
  return Restore(sequence, state.scores(), record);
}

void ManagerSession::Abandon(const absl::Status& why) {
  for (const auto& sequence : sequences_) {
    sequence->End(CloseReason::kError, why);
    const std::optional<HeldSlot>& held = sequence->state().held();
    if (held.has_value()) tables().Release(held->slot);
  }
  sequences_.clear();
}

void ManagerSession::OnUnparked(UnparkResult result) {
  const bool room = parking_.OnAnswer(result);
  Sequence* sequence = Find(result.sequence);
  if (sequence == nullptr || sequence->state().phase() != Phase::kParked) return;
  absl::Status placed = result.status;
  const bool waits = result.may_fit_later;
  if (room) {
    placed = result.swapped.empty() ? Place(sequence, sequence->state().scores(), result.pages)
                                    : GoOn(sequence, std::move(result));
  }
  const auto& trace = sequence->request().trace;
  if (room && placed.ok() && trace != nullptr) trace->OnPark(false, SteadyNow());
  if (!placed.ok() && !waits) sequence->End(CloseReason::kError, placed);
}

}  // namespace folio::worker
