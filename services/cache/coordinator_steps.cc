// A sequence's life: open, commit, acknowledge, close.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator_state.h"
#include "services/common/check.h"

namespace folio::cache {
namespace {

absl::Status CheckRequest(const OpenRequest& request, const policy::Policy& policy,
                          const CoordinatorOptions& options) {
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError("prompt_tokens is empty: give at least one token");
  }
  const uint64_t tokens = request.prompt.size() + uint64_t{request.max_new_tokens.value()};
  if (tokens > UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_new_tokens ", request.max_new_tokens.value(), " and a prompt of ",
                     request.prompt.size(), " tokens exceed the longest sequence, ", UINT32_MAX,
                     " tokens: lower max_new_tokens"));
  }
  if (policy.needs_scores() && options.score_board == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("policy ", policy.name(), " needs scores, and this pool has no score board"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PageReservation> Coordinator::State::Admit(const OpenRequest& request,
                                                          const policy::Policy& policy,
                                                          std::vector<SequenceId>* ended) {
  const CacheGeometry& geometry = options_.geometry;
  const uint64_t wanted = Sequence::WorstCase(request, policy, geometry);
  // Built only for a refusal: this runs under the lock.
  const auto want = [&] {
    return absl::StrCat("wanted ", wanted, " pages (", wanted / geometry.num_layers,
                        request.cache.layer_budgets.empty() ? " in each of " : " on average in ",
                        geometry.num_layers, " layers)");
  };
  if (wanted > pool_.total().value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("never fits: ", want(), ", the whole pool has ", pool_.total().value(),
                     "; shorten the prompt, lower max_new_tokens",
                     policy.evicts() ? " or budget_tokens" : ", choose a policy that evicts",
                     ", or give the manager a larger pool"));
  }
  const PageCount pages(static_cast<uint32_t>(wanted));
  std::optional<PageReservation> reservation = pool_.Reserve(pages);
  if (!reservation.has_value()) {
    *ended = MakeRoom(wanted);
    if (!ended->empty()) reservation = pool_.Reserve(pages);
  }
  if (!reservation.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "pool is full for now: ", want(), ", free ", pool_.free().value(), " (of these reserved ",
        pool_.reserved().value(), " for running sequences), held ", pool_.held().value(), " by ",
        sequences_.size(), " sequences, quarantined ", pool_.quarantined().value(),
        "; room comes when sequences end",
        pool_.quarantined().value() > 0 ? " or a fenced worker's process exits" : "",
        "; a shorter prompt, fewer max_new_tokens or a smaller budget_tokens needs less"));
  }
  return *std::move(reservation);
}

absl::StatusOr<Opened> Coordinator::State::Open(const OpenRequest& request) {
  // Made only of valid parameters.
  std::shared_ptr<const policy::Policy> policy;
  absl::Status valid = [&] {
    absl::Status status = policy::Validate(request.cache, options_.geometry.page_tokens,
                                           options_.geometry.num_layers);
    if (!status.ok()) return status;
    policy = policy::MakePolicy(request.cache.policy);
    return CheckRequest(request, *policy, options_);
  }();
  const absl::Time now = options_.clock->Now();

  absl::MutexLock lock(&mu_);
  if (absl::Status s = leases_.Renew(request.worker, now); !s.ok()) return s;
  if (!valid.ok()) return valid;
  Opened opened;
  absl::StatusOr<PageReservation> reservation = Admit(request, *policy, &opened.ended);
  if (!reservation.ok()) return reservation.status();
  ++last_sequence_;
  auto sequence = std::make_unique<Sequence>(last_sequence_, request, policy, options_.geometry,
                                             *std::move(reservation), now);
  opened.sequence = sequence->id();
  opened.lease_epoch = sequence->lease_epoch();
  opened.cache = request.cache;
  opened.pages = sequence->GrantPages(pool_);
  opened.scores = policy->score_need();
  opened.prompt_scores = policy->prompt_score_need();
  sequences_.emplace(opened.sequence, std::move(sequence));
  return opened;
}

absl::StatusOr<Sequence*> Coordinator::State::Find(SequenceId id) const {
  const auto it = sequences_.find(id);
  if (it != sequences_.end()) return it->second.get();
  return absl::NotFoundError(absl::StrCat("sequence ", id.value(), " is not open"));
}

absl::StatusOr<Sequence*> Coordinator::State::HeldBy(WorkerId worker, SequenceId id,
                                                     LeaseEpoch lease_epoch) {
  // A fenced worker's sequences are gone; that it was fenced says more than that.
  absl::Status lease = leases_.Renew(worker, options_.clock->Now());
  if (absl::IsFailedPrecondition(lease)) return lease;
  const absl::StatusOr<Sequence*> found = Find(id);
  if (!found.ok()) return found.status();
  Sequence& sequence = **found;
  if (sequence.orphaned_at().has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", id.value(), ": no worker holds its lease; claim it"));
  }
  if (sequence.worker() != worker) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", id.value(), ": worker ",
                                                      sequence.worker().value(),
                                                      " holds its lease, got ", worker.value()));
  }
  if (sequence.lease_epoch() != lease_epoch) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", id.value(), ": lease_epoch is ",
                                                      sequence.lease_epoch().value(), ", got ",
                                                      lease_epoch.value()));
  }
  return &sequence;
}

std::optional<DecisionInput> Coordinator::State::Advance(Sequence& sequence, Outcome& outcome) {
  std::optional<DecisionInput> input = sequence.BeginDecision(board());
  if (!input.has_value()) outcome.granted = sequence.GrantPages(pool_);
  return input;
}

absl::StatusOr<Outcome> Coordinator::State::DecideAndInstall(std::optional<DecisionInput> input,
                                                             Outcome outcome) {
  if (!input.has_value()) return outcome;
  Action action = Decide(*input);
  absl::MutexLock lock(&mu_);
  // Whoever ends the sequence waits for us, and tokens committed meanwhile only lie behind what was
  // decided on, so the plan still fits.
  Sequence& sequence = *sequences_.at(input->sequence);
  outcome.plan = sequence.FinishDecision(std::move(action), std::move(input->kept));
  if (!leases_.IsLive(sequence.worker())) {
    return leases_.Renew(sequence.worker(), options_.clock->Now());
  }
  return outcome;
}

absl::StatusOr<Outcome> Coordinator::State::Commit(const CommitRequest& request) {
  Outcome outcome;
  std::optional<DecisionInput> input;
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<Sequence*> held = HeldBy(request.worker, request.sequence, request.lease_epoch);
    if (!held.ok()) return held.status();
    Sequence& sequence = **held;
    if (absl::Status s = sequence.CheckCommit(request); !s.ok()) return s;
    sequence.ApplyCommit(request);
    input = Advance(sequence, outcome);
  }
  return DecideAndInstall(std::move(input), std::move(outcome));
}

absl::StatusOr<Outcome> Coordinator::State::Ack(WorkerId worker, SequenceId id,
                                                LeaseEpoch lease_epoch, PlanEpoch epoch) {
  Outcome outcome;
  std::optional<DecisionInput> input;
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<Sequence*> held = HeldBy(worker, id, lease_epoch);
    if (!held.ok()) return held.status();
    Sequence& sequence = **held;
    const std::optional<Plan>& plan = sequence.plan();
    if (!plan.has_value() || plan->epoch != epoch) {
      const std::string expected =
          plan.has_value() ? absl::StrCat("plan_epoch ", plan->epoch.value()) : "no plan";
      return absl::FailedPreconditionError(absl::StrCat("sequence ", id.value(), ": ", expected,
                                                        " waits, got plan_epoch ", epoch.value()));
    }
    sequence.ApplyPlan(pool_);
    // The page ahead was held back by this plan; decoding goes on in it while a next plan waits.
    outcome.granted = sequence.GrantPages(pool_);
    input = sequence.BeginDecision(board());
  }
  return DecideAndInstall(std::move(input), std::move(outcome));
}

absl::Status Coordinator::State::Close(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch) {
  absl::MutexLock lock(&mu_);
  const auto idle = [this, id]() {
    mu_.AssertReaderHeld();
    const auto it = sequences_.find(id);
    return it == sequences_.end() || !it->second->deciding();
  };
  mu_.Await(absl::Condition(&idle));
  absl::StatusOr<Sequence*> held = HeldBy(worker, id, lease_epoch);
  if (!held.ok()) return held.status();
  (*held)->Release(pool_);
  sequences_.erase(id);
  return absl::OkStatus();
}

}  // namespace folio::cache
