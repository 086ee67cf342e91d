// The steps of a sequence's life: open, commit, acknowledge, close.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/coordinator.h"
#include "services/cache/sequence_checks.h"
#include "services/policy/cache_config.h"

namespace folio::cache {
namespace {

absl::Status CheckRequest(const OpenRequest& request, const CoordinatorOptions& options) {
  const CacheGeometry& geometry = options.geometry;
  absl::Status valid = policy::Validate(request.cache, geometry.page_tokens, geometry.num_layers);
  if (!valid.ok()) return valid;
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
  const policy::PolicyTraits& policy = request.cache.policy->traits();
  if (policy.needs_scores() && options.score_board == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("policy ", policy.name, " needs scores, and this pool has no score board"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PageReservation> Coordinator::Admit(const OpenRequest& request,
                                                   std::vector<SequenceId>* ended) {
  const CacheGeometry& geometry = options_.geometry;
  const uint64_t wanted = WorstCasePages(request, geometry);
  // Built only for a refusal, because this runs under the lock.
  const auto describe_wanted = [&] {
    return absl::StrCat("wanted ", wanted, " pages (", wanted / geometry.num_layers,
                        request.cache.layer_budgets.empty() ? " in each of " : " on average in ",
                        geometry.num_layers, " layers)");
  };
  if (wanted > pool_.total().value()) {
    const bool evicts = request.cache.policy->traits().evicts;
    return absl::ResourceExhaustedError(
        absl::StrCat("never fits: ", describe_wanted(), ", the whole pool has ",
                     pool_.total().value(), "; shorten the prompt, lower max_new_tokens",
                     evicts ? " or budget_tokens" : ", choose a policy that evicts",
                     ", or give the manager a larger pool"));
  }
  const PageCount pages(static_cast<uint32_t>(wanted));
  std::optional<PageReservation> reservation = pool_.Reserve(pages);
  if (!reservation.has_value()) {
    *ended = orphanage_.MakeRoom(wanted);
    observer_.OnOrphansEnded(static_cast<uint32_t>(ended->size()));
    if (!ended->empty()) reservation = pool_.Reserve(pages);
  }
  if (!reservation.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "pool is full for now: ", describe_wanted(), ", free ", pool_.free().value(),
        " (of these reserved ", pool_.reserved().value(), " for running sequences), held ",
        pool_.held().value(), " by ", sequences_.size(), " sequences, quarantined ",
        pool_.quarantined().value(), "; room comes when sequences end",
        pool_.quarantined().value() > 0 ? " or a fenced worker's process exits" : "",
        "; a shorter prompt, fewer max_new_tokens or a smaller budget_tokens needs less"));
  }
  return *std::move(reservation);
}

absl::StatusOr<Opened> Coordinator::Open(const OpenRequest& request) {
  absl::Status valid = CheckRequest(request, options_);
  const absl::Time now = options_.clock->Now();

  absl::MutexLock lock(&mu_);
  const auto refuse = [this](absl::Status why) {
    observer_.OnRefused(why);
    return why;
  };
  if (absl::Status s = leases_.Renew(request.worker, now); !s.ok()) return refuse(s);
  if (!valid.ok()) return refuse(valid);
  Opened opened;
  absl::StatusOr<PageReservation> reservation = Admit(request, &opened.ended);
  if (!reservation.ok()) return refuse(reservation.status());
  ++last_sequence_;
  auto sequence = std::make_unique<Sequence>(last_sequence_, request, options_.geometry,
                                             *std::move(reservation), now);
  opened.sequence = last_sequence_;
  opened.lease_epoch = sequence->record().lease_epoch;
  opened.cache = request.cache;
  opened.pages = sequence->GrantPages(pool_);
  opened.scores = sequence->record().policy().scores;
  opened.prompt_scores = sequence->record().policy().prompt_scores;
  sequences_.emplace(opened.sequence, std::move(sequence));
  observer_.OnOpened(request.cache.policy->traits().name);
  return opened;
}

absl::StatusOr<Sequence*> Coordinator::Find(SequenceId id) const {
  const auto it = sequences_.find(id);
  if (it != sequences_.end()) return it->second.get();
  return absl::NotFoundError(absl::StrCat("sequence ", id.value(), " is not open"));
}

absl::StatusOr<Sequence*> Coordinator::FindHeld(WorkerId worker, SequenceId id,
                                                LeaseEpoch lease_epoch) {
  // A fenced worker's sequences are gone, and that it was fenced is the more useful answer.
  absl::Status lease = leases_.Renew(worker, options_.clock->Now());
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

// A decision reads up to two floats for each resident token and head, so it would block every other
// worker's step if it held the lock. It may run without: while `deciding` is set no page of the
// sequence can change hands, because calls that end the sequence wait. Tokens committed meanwhile
// lie behind the snapshot, so the plan still fits.
absl::StatusOr<Outcome> Coordinator::DecideAndInstall(std::optional<DecisionInput> input,
                                                      Outcome outcome) {
  if (!input.has_value()) return outcome;
  const auto start = std::chrono::steady_clock::now();
  Action action = Decide(*input);
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
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<Sequence*> held =
        FindHeld(request.worker, request.sequence, request.lease_epoch);
    if (!held.ok()) return held.status();
    Sequence& sequence = **held;
    if (absl::Status s = CheckCommit(sequence.record(), request); !s.ok()) return s;
    sequence.ApplyCommit(request);
    input = sequence.BeginDecision(board());
    if (!input.has_value()) outcome.granted = sequence.GrantPages(pool_);
  }
  return DecideAndInstall(std::move(input), std::move(outcome));
}

absl::StatusOr<Outcome> Coordinator::Ack(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch,
                                         PlanEpoch epoch) {
  Outcome outcome;
  std::optional<DecisionInput> input;
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<Sequence*> held = FindHeld(worker, id, lease_epoch);
    if (!held.ok()) return held.status();
    Sequence& sequence = **held;
    const std::optional<Plan>& plan = sequence.record().plan;
    if (!plan.has_value() || plan->epoch != epoch) {
      const std::string expected =
          plan.has_value() ? absl::StrCat("plan_epoch ", plan->epoch.value()) : "no plan";
      return Refuse(sequence.record(),
                    absl::StrCat(expected, " waits, got plan_epoch ", epoch.value()));
    }
    const uint64_t evicted = sequence.record().evicted_pages;
    sequence.ApplyPlan(pool_);
    observer_.OnEvicted(sequence.record().policy().name, sequence.record().evicted_pages - evicted);
    // The plan held the page ahead back. Decoding continues in it while a next plan waits.
    outcome.granted = sequence.GrantPages(pool_);
    input = sequence.BeginDecision(board());
  }
  return DecideAndInstall(std::move(input), std::move(outcome));
}

absl::Status Coordinator::Close(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch) {
  absl::MutexLock lock(&mu_);
  const auto idle = [this, id]() {
    mu_.AssertReaderHeld();
    const auto it = sequences_.find(id);
    return it == sequences_.end() || !it->second->record().deciding;
  };
  mu_.Await(absl::Condition(&idle));
  absl::StatusOr<Sequence*> held = FindHeld(worker, id, lease_epoch);
  if (!held.ok()) return held.status();
  (*held)->Release(pool_);
  sequences_.erase(id);
  return absl::OkStatus();
}

}  // namespace folio::cache
