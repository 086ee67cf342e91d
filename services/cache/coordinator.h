// Coordinator is the only place where pages change hands. It admits sequences, grants pages to
// them, has policies decide which tokens go, and takes pages back when a sequence or its worker
// ends.
//
//   which token goes?                 services/policy, run by decision.h on a snapshot
//   who frees a dead worker's pages?  FenceWorker and ConfirmExited below, through orphanage.h
//   is there room for a sequence?     Open below. The numbers are in footprint.h.
//   what if the pool runs dry?        parking.h, and preemption.h chooses
//
// Thread-safe under one lock, which is never held during a policy's decision or I/O. A failed call
// changes nothing, except that it renews the worker's lease. Calls that take pages away wait for
// decisions that still read them.
//
// The pages of a sequence, per layer and in table order:
//   [ full pages ... ][ newest page, partly filled ][ ahead ]
// Between steps a layer holds at most floor(resident / page_tokens) + 2 pages, and at most
// budget / page_tokens + 2 after its prompt is compacted (but see shrinking.h).
#ifndef FOLIO_SERVICES_CACHE_COORDINATOR_H_
#define FOLIO_SERVICES_CACHE_COORDINATOR_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/cache/admission_line.h"
#include "services/cache/claim.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/decision.h"
#include "services/cache/orphanage.h"
#include "services/cache/page_pool.h"
#include "services/cache/preemption.h"
#include "services/cache/score_board.h"
#include "services/cache/sequence.h"
#include "services/cache/swap_space.h"

namespace folio::cache {

class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // A worker's lease starts here. Renew and each call that names the worker renew it. The lease
  // keeps the progress that the worker told last, for operators.
  WorkerId AddWorker(std::string name);
  absl::Status Renew(WorkerId worker, const std::optional<StepProgress>& progress = std::nullopt);

  // Takes the worker's lease away. Its sequences that were opened with a resume token are orphaned,
  // except one that kMaxFruitlessClaims workers in a row lost without progress. An orphan whose
  // compaction was not acknowledged is parked, because no record says which of its tokens the
  // worker has moved. All others end, and their pages are quarantined until ConfirmExited. With
  // `quiesced`, an orderly goodbye after which nothing writes, they are free at once. Idempotent.
  void FenceWorker(WorkerId worker, bool quiesced);
  // The worker's process has ended: its quarantine is over, its orphans may be claimed. Idempotent.
  void ConfirmExited(WorkerId worker);
  // Fences the workers whose lease has run out and returns them.
  std::vector<WorkerId> FenceExpired();
  // Ends the orphans that no worker claimed within `orphan_ttl` and returns them.
  std::vector<SequenceId> EndExpiredOrphans();
  // Pages out of use because the fenced `worker` could still write them, quarantined or held by its
  // orphans.
  PageCount PagesBlockedBy(WorkerId worker) const;

  // Promises the pages that Admission says. If orphans are in the way whose grace is over, those
  // that wait longest end, as many as needed, or none if that does not help. No request passes one
  // that waits and is due earlier, on whatever worker. RESOURCE_EXHAUSTED says how many pages are
  // wanted, free and held, and whether waiting can help, or names the tenant's quota.
  // INVALID_ARGUMENT names the field. NOT_FOUND: no such worker. FAILED_PRECONDITION: it is fenced.
  absl::StatusOr<Opened> Open(OpenRequest request);

  // Gives an orphan to `worker`. Committed tokens stay, later ones are computed again, and `plan`
  // is carried out first. If several workers ask, one gets it. PERMISSION_DENIED: another resume
  // token. UNAVAILABLE, try again: its worker's lease is live, or that worker's process may still
  // run. NOT_FOUND: it has ended. ABORTED: it was given up. RESOURCE_EXHAUSTED: it was parked, and
  // there is no room for it now.
  absl::StatusOr<Claimed> Claim(const ClaimRequest& request);

  // Records a step of a worker: the plans that it carried out, and then the tokens that it
  // committed. Returns what became of each acknowledgement and then of each commit, and none stops
  // another. NOT_FOUND: no such sequence. FAILED_PRECONDITION is for a stale lease or plan epoch or
  // page reference, a length that goes backwards or past the pages held, a chunk that runs past the
  // prompt's end, or decode while a compaction (in synchronous mode any plan) waits.
  //
  // The record must always hold the ids of the tokens in the cache, and may hold the one sampled
  // last. After a commit that ends the prompt or decodes, prompt and sampled tokens together number
  // `logical_length` or one more. The pages that an acknowledged plan gave up are free. Its outcome
  // grants the page ahead that it held back, and holds the next plan if a page filled meanwhile.
  std::vector<absl::StatusOr<Outcome>> Step(WorkerId worker, absl::Span<const AckPlan> acks,
                                            absl::Span<const CommitTokens> commits);

  // Frees all pages of a sequence. The worker vouches that no step in flight can touch them.
  absl::Status Close(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch);

 private:
  friend class Inspector;
  friend class PageCensus;
  friend class Parking;
  friend class Restoration;
  friend class Steering;
  class OneStep;
  ScoreBoard board() const;
  absl::StatusOr<Sequence*> Find(SequenceId id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // FAILED_PRECONDITION for a fenced worker, which says more than that its sequences are gone.
  absl::Status RenewLease(WorkerId worker, SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The sequence, if `worker` may change it now. Renews the worker's lease, and FindOf does not.
  absl::StatusOr<Sequence*> FindHeld(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch,
                                     SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Sequence*> FindOf(WorkerId worker, SequenceId id, LeaseEpoch lease_epoch) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeIn(WorkerId worker, bool quiesced, SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits until no policy reads pages of the sequence, or of the worker's sequences.
  void AwaitDecision(SequenceId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitDecisions(WorkerId worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Unparks a sequence, or says why there is no room for it now. With `waits` the asker
  // keeps its place in the line. `ended` gets the orphans that ended for it.
  absl::Status Admit(Sequence& sequence, const AdmissionLine::Asker& asker, bool waits,
                     std::vector<SequenceId>* ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Pages that running sequences may need soon, beyond those promised.
  uint64_t Headroom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The refusal of a sequence that `before` others come before.
  absl::Status FullForNow(const SequenceRecord& record, size_t before, SteadyTime now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  LayerPageLists Grant(Sequence& sequence, SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const CoordinatorOptions options_;
  CoordinatorObserver ignore_;  // if the options name no observer
  CoordinatorObserver& observer_;
  DecisionThreads decision_threads_;
  mutable absl::Mutex mu_;
  PagePool pool_ ABSL_GUARDED_BY(mu_);  // before sequences_: reservations return to it
  LeaseTable leases_ ABSL_GUARDED_BY(mu_);
  SwapSpace swap_ ABSL_GUARDED_BY(mu_);  // before sequences_, as the pool
  SequenceMap sequences_ ABSL_GUARDED_BY(mu_);
  Orphanage orphanage_ ABSL_GUARDED_BY(mu_);  // this and the next work on those above
  Preemption preemption_ ABSL_GUARDED_BY(mu_);
  AdmissionLine line_ ABSL_GUARDED_BY(mu_);
  NextIds ids_ ABSL_GUARDED_BY(mu_);
  uint64_t window_pages_ ABSL_GUARDED_BY(mu_) = 0;  // that windows have passed since the start
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_H_
