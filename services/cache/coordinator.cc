// The coordinator's workers: their leases, and what a lost worker leaves behind.
#include "services/cache/coordinator.h"

#include <utility>

#include "services/base/check.h"

namespace folio::cache {

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options),
      observer_(options.observer == nullptr ? ignore_ : *options.observer),
      pool_(options.num_pages),
      leases_(options.lease_ttl),
      orphanage_(options.orphan_ttl, sequences_, pool_, leases_) {
  FOLIO_CHECK(options_.clock != nullptr);
  FOLIO_CHECK(options_.geometry.num_layers > 0 && options_.geometry.page_tokens > 0);
}

Coordinator::~Coordinator() {
  absl::MutexLock lock(&mu_);
  for (auto& [id, sequence] : sequences_) sequence->Release(pool_);
}

ScoreBoard Coordinator::board() const {
  return {options_.score_board, options_.num_pages.value(), options_.geometry.scores_per_page()};
}

WorkerId Coordinator::AddWorker(std::string name) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  return leases_.Add(std::move(name), now);
}

absl::Status Coordinator::Renew(WorkerId worker) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  return leases_.Renew(worker, now);
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

void Coordinator::FenceWorker(WorkerId worker, bool quiesced) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  leases_.Fence(worker);
  AwaitDecisions(worker);
  observer_.OnOrphaned(orphanage_.TakeIn(worker, quiesced, now));
  if (quiesced) {
    pool_.EndQuarantine(worker);
    leases_.Remove(worker);
  }
}

void Coordinator::ConfirmExited(WorkerId worker) { FenceWorker(worker, /*quiesced=*/true); }

std::vector<WorkerId> Coordinator::FenceExpired() {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  std::vector<WorkerId> expired = leases_.Expired(now);
  // All are fenced before the lock is released to wait for the first one's decisions.
  for (WorkerId worker : expired) leases_.Fence(worker);
  for (WorkerId worker : expired) {
    AwaitDecisions(worker);
    observer_.OnOrphaned(orphanage_.TakeIn(worker, /*quiesced=*/false, now));
  }
  return expired;
}

std::vector<SequenceId> Coordinator::EndExpiredOrphans() {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  std::vector<SequenceId> ended = orphanage_.EndExpired(now);
  observer_.OnOrphansEnded(static_cast<uint32_t>(ended.size()));
  return ended;
}

PageCount Coordinator::PagesBlockedBy(WorkerId worker) const {
  absl::MutexLock lock(&mu_);
  return orphanage_.PagesBlockedBy(worker);
}

absl::StatusOr<Claimed> Coordinator::Claim(const ClaimRequest& request) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  if (absl::Status s = leases_.Renew(request.worker, now); !s.ok()) return s;
  absl::StatusOr<Claimed> claimed = orphanage_.Claim(request);
  if (claimed.ok()) observer_.OnClaimed();
  return claimed;
}

}  // namespace folio::cache
