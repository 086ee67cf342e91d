#include "services/cache/coordinator.h"

#include <utility>

#include "services/cache/coordinator_state.h"

namespace folio::cache {

Coordinator::Coordinator(CoordinatorOptions options) : state_(std::make_unique<State>(options)) {}
Coordinator::~Coordinator() = default;

WorkerId Coordinator::AddWorker(std::string name) { return state_->AddWorker(std::move(name)); }
absl::Status Coordinator::Renew(WorkerId worker) { return state_->Renew(worker); }
void Coordinator::FenceWorker(WorkerId worker, bool quiesced) {
  state_->FenceWorker(worker, quiesced);
}
void Coordinator::ProveGone(WorkerId worker) { state_->ProveGone(worker); }
std::vector<WorkerId> Coordinator::FenceExpired() { return state_->FenceExpired(); }
std::vector<SequenceId> Coordinator::EndExpiredOrphans() { return state_->EndExpiredOrphans(); }
PageCount Coordinator::WithheldFor(WorkerId worker) const { return state_->WithheldFor(worker); }

absl::StatusOr<Opened> Coordinator::Open(const OpenRequest& request) {
  return state_->Open(request);
}
absl::StatusOr<Claimed> Coordinator::Claim(const ClaimRequest& request) {
  return state_->Claim(request);
}
absl::StatusOr<Outcome> Coordinator::Commit(const CommitRequest& request) {
  return state_->Commit(request);
}
absl::StatusOr<Outcome> Coordinator::Ack(WorkerId worker, SequenceId sequence,
                                         LeaseEpoch lease_epoch, PlanEpoch epoch) {
  return state_->Ack(worker, sequence, lease_epoch, epoch);
}
absl::Status Coordinator::Close(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch) {
  return state_->Close(worker, sequence, lease_epoch);
}

PoolInfo Coordinator::pool() const { return state_->pool(); }
std::vector<SequenceInfo> Coordinator::sequences() const { return state_->sequences(); }
absl::StatusOr<SequenceDetail> Coordinator::sequence(SequenceId id) const {
  return state_->sequence(id);
}
absl::StatusOr<Explanation> Coordinator::Explain(
    SequenceId id, const std::optional<policy::CacheConfig>& cache) const {
  return state_->Explain(id, cache);
}
absl::Status Coordinator::CheckInvariants() const { return state_->CheckInvariants(); }

}  // namespace folio::cache
