// The steps of an open sequence: commit, acknowledge, close.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator.h"
#include "services/cache/sequence_checks.h"

namespace folio::cache {

absl::StatusOr<Sequence*> Coordinator::Find(SequenceId id) const {
  const auto it = sequences_.find(id);
  if (it != sequences_.end()) return it->second.get();
  return absl::NotFoundError(absl::StrCat("sequence ", id.value(), " is not open"));
}

absl::StatusOr<Sequence*> Coordinator::FindOf(WorkerId worker, SequenceId id,
                                              LeaseEpoch lease_epoch) const {
  const absl::StatusOr<Sequence*> found = Find(id);
  if (!found.ok()) return found.status();
  const SequenceRecord& record = (*found)->record_without_tables();
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

absl::Status Coordinator::RenewLease(WorkerId worker, SteadyTime now) {
  absl::Status lease = leases_.Renew(worker, now);
  return absl::IsFailedPrecondition(lease) ? lease : absl::OkStatus();
}

absl::StatusOr<Sequence*> Coordinator::FindHeld(WorkerId worker, SequenceId id,
                                                LeaseEpoch lease_epoch, SteadyTime now) {
  if (absl::Status lease = RenewLease(worker, now); !lease.ok()) return lease;
  return FindOf(worker, id, lease_epoch);
}

LayerPageLists Coordinator::Grant(Sequence& sequence, SteadyTime now) {
  LayerPageLists pages = sequence.GrantPages(pool_, now);
  if (sequence.record().starved) preemption_.NoteShortage();
  return pages;
}

// A step on its way through the coordinator.
class Coordinator::OneStep {
 public:
  OneStep(Coordinator& coordinator, WorkerId worker)
      : c_(coordinator), worker_(worker), now_(coordinator.options_.clock->Now()) {}

  // All of it but the decisions that it makes due.
  void Apply(absl::Span<const AckPlan> acks, absl::Span<const CommitTokens> commits)
      ABSL_LOCKS_EXCLUDED(c_.mu_);
  // Runs the policies without the lock, then installs their plans.
  void DecideAndInstall() ABSL_LOCKS_EXCLUDED(c_.mu_);
  std::vector<absl::StatusOr<Outcome>> TakeOutcomes() { return std::move(outcomes_); }

 private:
  absl::StatusOr<Outcome> Apply(const AckPlan& ack) ABSL_EXCLUSIVE_LOCKS_REQUIRED(c_.mu_);
  absl::StatusOr<Outcome> Apply(const CommitTokens& commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(c_.mu_);
  // Begins the sequence's next decision, if one is due.
  bool BeginDecision(Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(c_.mu_);

  Coordinator& c_;
  const WorkerId worker_;
  const SteadyTime now_;
  std::vector<absl::StatusOr<Outcome>> outcomes_;
  std::vector<DecisionInput> inputs_;
  std::vector<size_t> deciding_;  // the outcomes that the inputs belong to
};

// A decision reads up to two floats for each resident token and head, so it would block every other
// worker's step if it held the lock. It may run without: while `deciding` is set no page of the
// sequence can change hands, because calls that end the sequence wait. Tokens committed meanwhile
// lie behind the snapshot, so the plan still fits.
void Coordinator::OneStep::DecideAndInstall() {
  if (inputs_.empty()) return;
  std::vector<Decision> decisions = Decide(absl::MakeSpan(inputs_), c_.decision_threads_);
  for (size_t i = 0; i < decisions.size(); ++i) {
    c_.observer_.OnDecided(inputs_[i].policy->traits().name, decisions[i].took);
  }
  absl::MutexLock lock(&c_.mu_);
  for (size_t i = 0; i < decisions.size(); ++i) {
    DecisionInput& input = inputs_[i];
    absl::StatusOr<Outcome>& outcome = outcomes_[deciding_[i]];
    Sequence& sequence = *c_.sequences_.at(input.sequence);
    outcome->plan = sequence.FinishDecision(std::move(decisions[i].action), std::move(input.kept));
    const WorkerId worker = sequence.record().worker;
    if (!c_.leases_.IsLive(worker)) outcome = c_.leases_.Renew(worker, c_.options_.clock->Now());
  }
}

absl::StatusOr<Outcome> Coordinator::OneStep::Apply(const CommitTokens& commit) {
  absl::StatusOr<Sequence*> held = c_.FindOf(worker_, commit.sequence, commit.lease_epoch);
  if (!held.ok()) return held.status();
  Sequence& sequence = **held;
  const SequenceRecord& known = sequence.record_without_tables();
  const uint64_t growth = commit.logical_length.value() - known.logical_length;
  // Nearly all steps of a sequence are quiet, so these take the short way.
  const bool quiet = IsQuiet(known, commit);
  if (!quiet) {
    if (absl::Status s = CheckCommit(sequence.record(), commit); !s.ok()) return s;
  }
  c_.line_.OnCommit(worker_, known.tenant, growth, now_);
  c_.window_pages_ += sequence.ApplyCommit(commit, quiet, c_.pool_, now_);
  Outcome outcome;
  if (quiet) return outcome;
  if (!BeginDecision(sequence)) outcome.granted = c_.Grant(sequence, now_);
  return outcome;
}

absl::StatusOr<Outcome> Coordinator::OneStep::Apply(const AckPlan& ack) {
  absl::StatusOr<Sequence*> held = c_.FindOf(worker_, ack.sequence, ack.lease_epoch);
  if (!held.ok()) return held.status();
  Sequence& sequence = **held;
  if (sequence.record().parked) {
    return Refuse(sequence.record(), "it is parked: carry its plan out once it has pages again");
  }
  const std::optional<Plan>& plan = sequence.record().plan;
  if (!plan.has_value() || plan->epoch != ack.plan_epoch) {
    const std::string expected =
        plan.has_value() ? absl::StrCat("plan_epoch ", plan->epoch.value()) : "no plan";
    return Refuse(sequence.record(),
                  absl::StrCat(expected, " waits, got plan_epoch ", ack.plan_epoch.value()));
  }
  const uint64_t evicted = sequence.record().evicted_pages;
  sequence.ApplyPlan(c_.pool_, now_);
  const uint64_t pages = sequence.record().evicted_pages - evicted;
  Outcome outcome;
  outcome.evicted = {sequence.record().policy().name, PageCount(static_cast<uint32_t>(pages))};
  c_.observer_.OnEvicted(outcome.evicted->policy, pages);
  // The plan held the page ahead back. Decoding continues in it while a next plan waits.
  outcome.granted = c_.Grant(sequence, now_);
  (void)BeginDecision(sequence);
  return outcome;
}

bool Coordinator::OneStep::BeginDecision(Sequence& sequence) {
  std::optional<DecisionInput> input = sequence.BeginDecision(c_.board());
  if (!input.has_value()) return false;
  inputs_.push_back(*std::move(input));
  deciding_.push_back(outcomes_.size());
  return true;
}

void Coordinator::OneStep::Apply(absl::Span<const AckPlan> acks,
                                 absl::Span<const CommitTokens> commits) {
  absl::MutexLock lock(&c_.mu_);
  if (const absl::Status lease = c_.RenewLease(worker_, now_); !lease.ok()) {
    outcomes_.assign(acks.size() + commits.size(), lease);
    return;
  }
  outcomes_.reserve(acks.size() + commits.size());
  for (const AckPlan& ack : acks) outcomes_.push_back(Apply(ack));
  for (const CommitTokens& commit : commits) outcomes_.push_back(Apply(commit));
}

std::vector<absl::StatusOr<Outcome>> Coordinator::Step(WorkerId worker,
                                                       absl::Span<const AckPlan> acks,
                                                       absl::Span<const CommitTokens> commits) {
  if (options_.score_board != nullptr) {
    for (const CommitTokens& commit : commits) {
      for (const PageRef page : commit.filled) board().Prefetch(page);
    }
  }
  OneStep step(*this, worker);
  step.Apply(acks, commits);
  step.DecideAndInstall();
  return step.TakeOutcomes();
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
  (*held)->GiveUpPages(pool_, /*quiesced=*/true);
  line_.Leave({worker, id});
  sequences_.erase(id);
  if (options_.journal != nullptr) options_.journal->OnEnd(id);
  return absl::OkStatus();
}

}  // namespace folio::cache
