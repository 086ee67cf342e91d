// Orphanage decides what becomes of the sequences of a lost worker: each is kept for another worker
// to claim, or it ends. It also decides who frees a dead worker's pages. They are free at once if
// the worker's process has ended, and quarantined until its end is confirmed if it has not.
//
// An orphan keeps its pages, its promised pages and its record for `ttl`. If a compaction was not
// acknowledged, it keeps its record alone and is computed again. Until the old process has
// ended no worker may claim it, because that process could still write the pages. README.md says
// why a claimed sequence is right wherever the old worker stopped. An orphan makes no room for
// others before it could be claimed for `grace`, which `ttl` bounds in any case.
//
// A sequence is given up if kMaxFruitlessClaims workers in a row claimed it and were lost before it
// made progress (see Progress). A worker that drains closes its sequences before it leaves, so an
// orderly end never counts.
//
// Works on the coordinator's sequences, pool and leases, which its lock guards. Thread-compatible.
#ifndef FOLIO_SERVICES_CACHE_ORPHANAGE_H_
#define FOLIO_SERVICES_CACHE_ORPHANAGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"
#include "services/cache/claim.h"
#include "services/cache/lease.h"
#include "services/cache/page_pool.h"
#include "services/cache/sequence.h"

namespace folio::cache {

// TakenIn counts what became of the sequences of a lost worker. All others have ended.
struct TakenIn {
  uint32_t orphaned = 0;
  uint32_t given_up = 0;  // ended because of kMaxFruitlessClaims
};

class Orphanage {
 public:
  // Borrows the rest, and the journal may be null. With a `ttl` of 0 a sequence always ends with
  // its worker.
  Orphanage(absl::Duration ttl, absl::Duration grace, SequenceMap& sequences, PagePool& pool,
            const LeaseTable& leases, Journal* journal = nullptr)
      : ttl_(ttl),
        grace_(grace),
        sequences_(sequences),
        pool_(pool),
        leases_(leases),
        journal_(journal) {}

  // Orphans or ends each sequence of a fenced worker. With `quiesced` nothing can write their pages
  // any more, nor those of sequences that were orphaned before, so their grace begins.
  // Precondition: no policy is deciding on one of them.
  TakenIn TakeIn(WorkerId worker, bool quiesced, SteadyTime now);

  // The orphan that a live worker may claim now. The errors are those of Coordinator::Claim.
  absl::StatusOr<Sequence*> FindClaimable(const ClaimRequest& request) const;

  // Ends an orphan. Precondition: the sequence is one.
  void EndOrphan(SequenceId id);
  // Ends the orphans that have waited for `ttl` and returns them.
  std::vector<SequenceId> EndExpired(SteadyTime now);

  // Ends orphans whose grace is over, those that wait longest first, until `wanted` pages can be
  // reserved. Ends none if that cannot be reached. Returns those that ended.
  std::vector<SequenceId> MakeRoom(uint64_t wanted, SteadyTime now);
  // Pages of orphans that make no room yet, those that they are promised included.
  uint64_t PagesInGrace(SteadyTime now) const;

  // Pages that are out of use because the fenced `worker` could still write them.
  PageCount PagesBlockedBy(WorkerId worker) const;

  // How long an orphan still waits, or 0 for a sequence with a worker.
  absl::Duration TimeLeft(const SequenceRecord& record, SteadyTime now) const;

  // How many sequences were given up since the start, and the newest `count` of them, oldest first.
  // The last kRemembered are known by id, so that a claim can be told why it finds none.
  uint64_t given_up() const { return given_up_; }
  std::vector<SequenceId> NewestGivenUp(uint64_t count) const;

 private:
  static constexpr size_t kRemembered = 1024;

  // The worker's process is known to have ended.
  bool HasExited(WorkerId worker) const { return !leases_.all().contains(worker); }
  // Ends a sequence without a worker. Its pages become free, or quarantined unless `quiesced`.
  SequenceMap::iterator End(SequenceMap::iterator it, bool quiesced);
  void RememberGivenUp(SequenceId id);
  bool InGrace(const SequenceRecord& record, SteadyTime now) const {
    return record.orphaned() && now - record.claimable_at.value_or(now) < grace_;
  }

  const absl::Duration ttl_;
  const absl::Duration grace_;
  SequenceMap& sequences_;
  PagePool& pool_;
  const LeaseTable& leases_;
  Journal* const journal_;  // null without one
  uint64_t given_up_ = 0;
  std::deque<SequenceId> remembered_;  // of those given up, the newest last
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_ORPHANAGE_H_
