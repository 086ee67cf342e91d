// The coordinator's workers: their leases, and what a lost worker leaves behind.
#include "services/cache/coordinator.h"

#include <utility>

#include "services/base/check.h"

namespace folio::cache {

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options),
      observer_(options.observer == nullptr ? ignore_ : *options.observer),
      decision_threads_(options.decision_threads),
      pool_(options.num_pages, options.clear_pages),
      leases_(options.lease_ttl),
      swap_(options.swap_slots),
      orphanage_(options.orphan_ttl, options.orphan_grace, sequences_, pool_, leases_,
                 options.journal),
      preemption_(sequences_, pool_, swap_, orphanage_),
      ids_(options.ids) {
  FOLIO_CHECK(options_.clock != nullptr);
  FOLIO_CHECK(options_.geometry.num_layers > 0 && options_.geometry.page_tokens > 0);
}

Coordinator::~Coordinator() {
  absl::MutexLock lock(&mu_);
  for (auto& [id, sequence] : sequences_) sequence->GiveUpPages(pool_, /*quiesced=*/true);
}

ScoreBoard Coordinator::board() const {
  return {options_.score_board, options_.num_pages.value(), options_.geometry.scores_per_page()};
}

WorkerId Coordinator::AddWorker(std::string name) {
  const SteadyTime now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  const WorkerId worker = ids_.TakeWorker();
  leases_.Add(worker, std::move(name), now);
  return worker;
}

absl::Status Coordinator::Renew(WorkerId worker, const std::optional<StepProgress>& progress) {
  const SteadyTime now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  return leases_.Renew(worker, now, progress);
}

void Coordinator::AwaitDecisions(WorkerId worker) {
  const auto idle = [this, worker]() {
    mu_.AssertReaderHeld();
    for (const auto& [id, sequence] : sequences_) {
      if (sequence->record().worker == worker && sequence->record().deciding) return false;
    }
    return true;
  };
  mu_.Await(absl::Condition(&idle));
}

void Coordinator::TakeIn(WorkerId worker, bool quiesced, SteadyTime now) {
  AwaitDecisions(worker);
  line_.LeaveAll(worker);
  const TakenIn taken = orphanage_.TakeIn(worker, quiesced, now);
  observer_.OnOrphaned(taken.orphaned);
  observer_.OnGivenUp(taken.given_up);
}

void Coordinator::FenceWorker(WorkerId worker, bool quiesced) {
  const SteadyTime now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  leases_.Fence(worker);
  TakeIn(worker, quiesced, now);
  if (quiesced) {
    if (options_.journal != nullptr) options_.journal->OnQuarantineEnd(worker);
    pool_.EndQuarantine(worker);
    swap_.EndQuarantine(worker);
    leases_.Remove(worker);
  }
}

void Coordinator::ConfirmExited(WorkerId worker) { FenceWorker(worker, /*quiesced=*/true); }

std::vector<WorkerId> Coordinator::FenceExpired() {
  const SteadyTime now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  std::vector<WorkerId> expired = leases_.Expired(now);
  // All are fenced before the lock is released to wait for the first one's decisions.
  for (WorkerId worker : expired) leases_.Fence(worker);
  for (WorkerId worker : expired) TakeIn(worker, /*quiesced=*/false, now);
  return expired;
}

std::vector<SequenceId> Coordinator::EndExpiredOrphans() {
  const SteadyTime now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  std::vector<SequenceId> ended = orphanage_.EndExpired(now);
  observer_.OnOrphansEnded(static_cast<uint32_t>(ended.size()));
  return ended;
}

PageCount Coordinator::PagesBlockedBy(WorkerId worker) const {
  absl::MutexLock lock(&mu_);
  return orphanage_.PagesBlockedBy(worker);
}

}  // namespace folio::cache
