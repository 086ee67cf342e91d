// The steps of an open sequence: commit, acknowledge, close.
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator.h"
#include "services/cache/sequence_checks.h"

namespace folio::cache {

absl::StatusOr<Sequence*> Coordinator::Find(SequenceId id) const {
  const auto it = sequences_.find(id);
  if (it != sequences_.end()) return it->second.get();
  return absl::NotFoundError(absl::StrCat("sequence ", id.value(), " is not open"));
}

absl::StatusOr<Sequence*> Coordinator::FindHeld(WorkerId worker, SequenceId id,
                                                LeaseEpoch lease_epoch, SteadyTime now) {
  // A fenced worker's sequences are gone, and that it was fenced is the more useful answer.
  absl::Status lease = leases_.Renew(worker, now);
  if (absl::IsFailedPrecondition(lease)) return lease;
  const absl::StatusOr<Sequence*> found = Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record();
  if (record.orphaned()) return Refuse(record, "no worker holds its lease; claim it");
  if (record.worker != worker) {
    return Refuse(record, absl::StrCat("worker ", record.worker.value(), " holds its lease, got ",
                                       worker.value()));
  }
  if (record.lease_epoch != lease_epoch) {
    return Refuse(record, absl::StrCat("lease_epoch is ", record.lease_epoch.value(), ", got ",
                                       lease_epoch.value()));
  }
  return *found;
}

LayerPageLists Coordinator::Grant(Sequence& sequence, SteadyTime now) {
  LayerPageLists pages = sequence.GrantPages(pool_, now);
  if (sequence.record().starved) preemption_.NoteShortage();
  return pages;
}

// A decision reads up to two floats for each resident token and head, so it would block every other
// worker's step if it held the lock. It may run without: while `deciding` is set no page of the
// sequence can change hands, because calls that end the sequence wait. Tokens committed meanwhile
// lie behind the snapshot, so the plan still fits.
absl::StatusOr<Outcome> Coordinator::DecideAndInstall(std::optional<DecisionInput> input,
                                                      Outcome outcome) {
  if (!input.has_value()) return outcome;
  const auto start = std::chrono::steady_clock::now();
  Action action = Decide(*input, decision_threads_);
  observer_.OnDecided(input->policy->traits().name,
                      absl::FromChrono(std::chrono::steady_clock::now() - start));
  absl::MutexLock lock(&mu_);
  Sequence& sequence = *sequences_.at(input->sequence);
  outcome.plan = sequence.FinishDecision(std::move(action), std::move(input->kept));
  const WorkerId worker = sequence.record().worker;
  if (!leases_.IsLive(worker)) return leases_.Renew(worker, options_.clock->Now());
  return outcome;
}

absl::StatusOr<Outcome> Coordinator::Commit(const CommitRequest& request) {
  Outcome outcome;
  std::optional<DecisionInput> input;
  const SteadyTime now = options_.clock->Now();
  if (options_.score_board != nullptr) {
    for (const PageRef page : request.filled) board().Prefetch(page);
  }
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<Sequence*> held =
        FindHeld(request.worker, request.sequence, request.lease_epoch, now);
    if (!held.ok()) return held.status();
    Sequence& sequence = **held;
    const SequenceRecord& record = sequence.record();
    // Nearly all steps of a sequence are quiet, so these take the short way.
    const bool quiet = IsQuiet(record, request);
    if (absl::Status s = quiet ? absl::OkStatus() : CheckCommit(record, request); !s.ok()) return s;
    line_.OnCommit(request.worker, record.tenant,
                   request.logical_length.value() - record.logical_length, now);
    sequence.ApplyCommit(request, now);
    if (quiet) return outcome;
    input = sequence.BeginDecision(board());
    if (!input.has_value()) outcome.granted = Grant(sequence, now);
  }
  return DecideAndInstall(std::move(input), std::move(outcome));
}

absl::StatusOr<Outcome> Coordinator::Ack(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch,
                                         PlanEpoch epoch) {
  Outcome outcome;
  std::optional<DecisionInput> input;
  const SteadyTime now = options_.clock->Now();
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<Sequence*> held = FindHeld(worker, id, lease_epoch, now);
    if (!held.ok()) return held.status();
    Sequence& sequence = **held;
    if (sequence.record().parked) {
      return Refuse(sequence.record(), "it is parked: carry its plan out once it has pages again");
    }
    const std::optional<Plan>& plan = sequence.record().plan;
    if (!plan.has_value() || plan->epoch != epoch) {
      const std::string expected =
          plan.has_value() ? absl::StrCat("plan_epoch ", plan->epoch.value()) : "no plan";
      return Refuse(sequence.record(),
                    absl::StrCat(expected, " waits, got plan_epoch ", epoch.value()));
    }
    const uint64_t evicted = sequence.record().evicted_pages;
    sequence.ApplyPlan(pool_);
    const uint64_t pages = sequence.record().evicted_pages - evicted;
    outcome.evicted = {sequence.record().policy().name, PageCount(static_cast<uint32_t>(pages))};
    observer_.OnEvicted(outcome.evicted->policy, pages);
    // The plan held the page ahead back. Decoding continues in it while a next plan waits.
    outcome.granted = Grant(sequence, now);
    input = sequence.BeginDecision(board());
  }
  return DecideAndInstall(std::move(input), std::move(outcome));
}

void Coordinator::AwaitDecision(SequenceId id) {
  const auto idle = [this, id]() {
    mu_.AssertReaderHeld();
    const auto it = sequences_.find(id);
    return it == sequences_.end() || !it->second->record().deciding;
  };
  mu_.Await(absl::Condition(&idle));
}

absl::Status Coordinator::Close(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch) {
  absl::MutexLock lock(&mu_);
  AwaitDecision(id);
  absl::StatusOr<Sequence*> held = FindHeld(worker, id, lease_epoch, options_.clock->Now());
  if (!held.ok()) return held.status();
  (*held)->Release(pool_);
  line_.Leave({worker, id});
  sequences_.erase(id);
  return absl::OkStatus();
}

}  // namespace folio::cache
