// The one place where pages change hands: page states, block tables, sequences, leases,
// reservations, plans. Thread-safe; one lock, never held across a policy decision or I/O. Every
// refusal is a Status that leaves everything as it was, but for the worker's lease, renewed. Calls
// that take pages away wait for a decision that still reads them (well under a millisecond).
//
// Pages of a sequence, per layer and in table order:
//   [ full pages ... ][ newest page, partly filled ][ ahead ]
// Between steps a layer holds at most floor(resident / page_tokens) + 2 pages, and never more than
// budget / page_tokens + 2 once its prompt is compacted.
#ifndef FOLIO_SERVICES_CACHE_COORDINATOR_H_
#define FOLIO_SERVICES_CACHE_COORDINATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/cache/claim.h"
#include "services/cache/coordinator_types.h"
#include "services/common/clock.h"
#include "services/common/geometry.h"
#include "services/common/ids.h"

namespace folio::cache {

struct CoordinatorOptions {
  CacheGeometry geometry;
  PageCount num_pages;
  absl::Duration lease_ttl = absl::Seconds(10);
  // How long a sequence waits for another worker when its own is lost; 0: it ends at once.
  absl::Duration orphan_ttl;
  // Score board of the pool, `geometry.score_board_floats(num_pages)` floats; borrowed. Workers of
  // other processes write it; rows are read only after the commit that covers them.
  const float* score_board = nullptr;
  const Clock* clock = nullptr;  // borrowed
};

class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // A worker's lease starts here and is renewed by Renew and by each call that names the worker.
  WorkerId AddWorker(std::string name);
  absl::Status Renew(WorkerId worker);

  // Fences the worker. Its sequences that were opened with a resume token are orphaned: they keep
  // their pages and their reservation until they are claimed or end. The others end, and their
  // pages are quarantined until ProveGone; with `quiesced` (an orderly goodbye: nothing can write
  // any more) they are free at once. Idempotent.
  //
  // One more ends: a sequence whose compaction was not acknowledged, since nobody knows which of
  // its tokens were moved. Pages that were to be dropped are whole: the claim names them again.
  void FenceWorker(WorkerId worker, bool quiesced);
  // The process is known to have ended: pages quarantined for it become free, its orphans may be
  // claimed. Idempotent.
  void ProveGone(WorkerId worker);
  // Fences workers whose lease has run out and returns them.
  std::vector<WorkerId> FenceExpired();
  // Ends the orphans that nobody claimed within `orphan_ttl` and returns them.
  std::vector<SequenceId> EndExpiredOrphans();
  // Pages out of use because the fenced `worker` could still write them: quarantined, or orphans'.
  PageCount WithheldFor(WorkerId worker) const;

  // RESOURCE_EXHAUSTED says how many pages are wanted, free and held, and whether waiting can help;
  // INVALID_ARGUMENT names the field; NOT_FOUND or FAILED_PRECONDITION: the worker is unknown or
  // fenced. Reserves the worst case (prompt and max_new_tokens, or budget and slack), so that a
  // running sequence never meets a full pool. Where orphans are in the way, those that wait longest
  // end, as many as are needed and none if that does not help.
  absl::StatusOr<Opened> Open(const OpenRequest& request);

  // Makes an orphan `worker`'s: what was committed stays, tokens behind it are computed again, and
  // `plan` is carried out first. PERMISSION_DENIED: another resume token. UNAVAILABLE, try again:
  // its worker's lease is live, or the process is not proven gone. NOT_FOUND: it has ended. Of
  // several that ask, one gets it.
  absl::StatusOr<Claimed> Claim(const ClaimRequest& request);

  // FAILED_PRECONDITION on a stale lease epoch or page reference, a length that goes backwards or
  // past the pages held, a chunk that runs past the prompt's end, or decode while a compaction (in
  // synchronous mode: any plan) waits: acknowledge first. NOT_FOUND for an unknown sequence.
  //
  // The record must always hold the ids of the tokens in the cache, and may hold the one sampled
  // but not yet fed: after a commit that ends the prompt or decodes, prompt and sampled tokens
  // together number `logical_length` or one more.
  absl::StatusOr<Outcome> Commit(const CommitRequest& request);

  // The worker carried out plan `epoch`; the pages it gave up become free. The outcome grants the
  // page ahead that the plan held back, and holds the next plan if the newest page filled
  // meanwhile.
  absl::StatusOr<Outcome> Ack(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch,
                              PlanEpoch epoch);

  // All pages become free. The worker vouches that no step in flight can touch them.
  absl::Status Close(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch);

  PoolInfo pool() const;
  std::vector<SequenceInfo> sequences() const;
  absl::StatusOr<SequenceDetail> sequence(SequenceId id) const;
  // What a policy with the settings `cache` (none: the sequence's own) would evict if it had to
  // decide now; nothing changes. INVALID_ARGUMENT as Open; NOT_FOUND; FAILED_PRECONDITION while the
  // prompt is prefilled or when the policy reads scores that the sequence's worker does not write;
  // UNAVAILABLE when the sequence was evicted from all the while: ask again.
  absl::StatusOr<Explanation> Explain(SequenceId id,
                                      const std::optional<policy::CacheConfig>& cache) const;

  // Checks every invariant of the page accounting; INTERNAL names the first that is broken.
  // O(pages); for debug builds, tests and fuzzing.
  absl::Status CheckInvariants() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_H_
