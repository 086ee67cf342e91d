// Workers: leases, fencing, and what becomes of a fenced worker's pages.
#include "services/cache/coordinator_state.h"

#include <utility>

#include "services/common/check.h"

namespace folio::cache {

Coordinator::State::State(CoordinatorOptions options)
    : options_(options), pool_(options.num_pages), leases_(options.lease_ttl) {
  FOLIO_CHECK(options_.clock != nullptr);
  FOLIO_CHECK(options_.geometry.num_layers > 0 && options_.geometry.page_tokens > 0);
}

Coordinator::State::~State() {
  absl::MutexLock lock(&mu_);
  for (auto& [id, sequence] : sequences_) sequence->Release(pool_);
}

WorkerId Coordinator::State::AddWorker(std::string name) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  return leases_.Add(std::move(name), now);
}

absl::Status Coordinator::State::Renew(WorkerId worker) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  return leases_.Renew(worker, now);
}

void Coordinator::State::AwaitDecisions(WorkerId worker) {
  const auto idle = [this, worker]() {
    mu_.AssertReaderHeld();
    for (const auto& [id, sequence] : sequences_) {
      if (sequence->worker() == worker && sequence->deciding()) return false;
    }
    return true;
  };
  mu_.Await(absl::Condition(&idle));
}

void Coordinator::State::FenceWorker(WorkerId worker, bool quiesced) {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  leases_.Fence(worker);
  LeaveSequences(worker, quiesced, now);
  if (quiesced) {
    pool_.EndQuarantine(worker);
    leases_.Remove(worker);
  }
}

void Coordinator::State::ProveGone(WorkerId worker) { FenceWorker(worker, /*quiesced=*/true); }

std::vector<WorkerId> Coordinator::State::FenceExpired() {
  const absl::Time now = options_.clock->Now();
  absl::MutexLock lock(&mu_);
  std::vector<WorkerId> expired = leases_.Expired(now);
  for (WorkerId worker : expired) leases_.Fence(worker);
  for (WorkerId worker : expired) LeaveSequences(worker, /*quiesced=*/false, now);
  return expired;
}

}  // namespace folio::cache
