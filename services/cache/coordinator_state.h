// Private to the coordinator's sources: the lock, and everything it guards.
#ifndef FOLIO_SERVICES_CACHE_COORDINATOR_STATE_H_
#define FOLIO_SERVICES_CACHE_COORDINATOR_STATE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/cache/coordinator.h"
#include "services/cache/decision.h"
#include "services/cache/lease.h"
#include "services/cache/page_pool.h"
#include "services/cache/sequence.h"

namespace folio::cache {

class Coordinator::State {
 public:
  explicit State(CoordinatorOptions options);
  ~State();

  WorkerId AddWorker(std::string name) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Renew(WorkerId worker) ABSL_LOCKS_EXCLUDED(mu_);
  void FenceWorker(WorkerId worker, bool quiesced) ABSL_LOCKS_EXCLUDED(mu_);
  void ProveGone(WorkerId worker) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<WorkerId> FenceExpired() ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<SequenceId> EndExpiredOrphans() ABSL_LOCKS_EXCLUDED(mu_);
  PageCount WithheldFor(WorkerId worker) const ABSL_LOCKS_EXCLUDED(mu_);

  absl::StatusOr<Opened> Open(const OpenRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Claimed> Claim(const ClaimRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Outcome> Commit(const CommitRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Outcome> Ack(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch,
                              PlanEpoch epoch) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Close(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch)
      ABSL_LOCKS_EXCLUDED(mu_);

  PoolInfo pool() const ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<SequenceInfo> sequences() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<SequenceDetail> sequence(SequenceId id) const ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Explanation> Explain(SequenceId id,
                                      const std::optional<policy::CacheConfig>& cache) const
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CheckInvariants() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  ScoreBoard board() const {
    return {options_.score_board, options_.num_pages.value(), options_.geometry.scores_per_page()};
  }

  // A sequence as a policy would see it, and as it was then.
  struct Imagined {
    DecisionInput input;
    policy::CacheConfig cache;
    SequenceDetail detail;
  };
  absl::StatusOr<Imagined> Imagine(SequenceId id,
                                   const std::optional<policy::CacheConfig>& cache) const
      ABSL_LOCKS_EXCLUDED(mu_);

  SequenceInfo Describe(const Sequence& sequence, absl::Time now) const;
  // NOT_FOUND when it is not open.
  absl::StatusOr<Sequence*> Find(SequenceId id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The sequence, if `worker` may change it now; renews the worker's lease.
  absl::StatusOr<Sequence*> HeldBy(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Pages for a new sequence, or why it cannot be admitted. `ended` gets the orphans that ended.
  absl::StatusOr<PageReservation> Admit(const OpenRequest& request, const policy::Policy& policy,
                                        std::vector<SequenceId>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What is due after a change: either a decision to make, or pages granted into `outcome`.
  std::optional<DecisionInput> Advance(Sequence& sequence, Outcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs the policy without the lock, then installs its plan.
  absl::StatusOr<Outcome> DecideAndInstall(std::optional<DecisionInput> input, Outcome outcome)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until no policy reads pages of the worker's sequences.
  void AwaitDecisions(WorkerId worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Orphans (coordinator_orphans.cc).
  using SequenceMap = std::map<SequenceId, std::unique_ptr<Sequence>>;
  // Orphans or ends the sequences of a fenced worker.
  void LeaveSequences(WorkerId worker, bool quiesced, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends a sequence that no worker has; its pages become free or quarantined.
  SequenceMap::iterator EndLeft(SequenceMap::iterator it, bool quiesced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Its process has ended.
  bool IsGone(WorkerId worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends orphans until `wanted` pages can be reserved, or none; returns them.
  std::vector<SequenceId> MakeRoom(uint64_t wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const CoordinatorOptions options_;

  mutable absl::Mutex mu_;
  PagePool pool_ ABSL_GUARDED_BY(mu_);  // before sequences_: reservations return to it
  LeaseTable leases_ ABSL_GUARDED_BY(mu_);
  SequenceMap sequences_ ABSL_GUARDED_BY(mu_);
  SequenceId last_sequence_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_STATE_H_
