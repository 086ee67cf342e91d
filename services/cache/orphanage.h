// Orphanage decides what becomes of the sequences of a lost worker: each is kept for another worker
// to claim, or it ends. It also decides who frees a dead worker's pages. They are free at once if
// the worker's process has ended, and quarantined until its end is confirmed if it has not.
//
// An orphan keeps its pages, its promised pages and its record for `ttl`. Until the old process has
// ended no worker may claim it, because that process could still write the pages. README.md says
// why a claimed sequence is right wherever the old worker stopped.
//
// Works on the coordinator's sequences, pool and leases, which its lock guards. Thread-compatible.
#ifndef FOLIO_SERVICES_CACHE_ORPHANAGE_H_
#define FOLIO_SERVICES_CACHE_ORPHANAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/ids.h"
#include "services/cache/claim.h"
#include "services/cache/lease.h"
#include "services/cache/page_pool.h"
#include "services/cache/sequence.h"

namespace folio::cache {

class Orphanage {
 public:
  // Borrows everything. With a `ttl` of 0 a sequence always ends with its worker.
  Orphanage(absl::Duration ttl, SequenceMap& sequences, PagePool& pool, const LeaseTable& leases)
      : ttl_(ttl), sequences_(sequences), pool_(pool), leases_(leases) {}

  // Orphans or ends each sequence of a fenced worker, and returns how many it orphaned. With
  // `quiesced` nothing can write their pages any more. Precondition: no policy is deciding on one
  // of them.
  uint32_t TakeIn(WorkerId worker, bool quiesced, absl::Time now);

  // Gives an orphan to a live worker. The errors are those of Coordinator::Claim.
  absl::StatusOr<Claimed> Claim(const ClaimRequest& request);

  // Ends the orphans that have waited for `ttl` and returns them.
  std::vector<SequenceId> EndExpired(absl::Time now);

  // Ends orphans, those that wait longest first, until `wanted` pages can be reserved. Ends none if
  // that cannot be reached. Returns those that ended.
  std::vector<SequenceId> MakeRoom(uint64_t wanted);

  // Pages that are out of use because the fenced `worker` could still write them.
  PageCount PagesBlockedBy(WorkerId worker) const;

  // How long an orphan still waits, or 0 for a sequence with a worker.
  absl::Duration TimeLeft(const SequenceRecord& record, absl::Time now) const;

 private:
  // The worker's process is known to have ended.
  bool HasExited(WorkerId worker) const { return !leases_.all().contains(worker); }
  // Ends a sequence without a worker. Its pages become free, or quarantined unless `quiesced`.
  SequenceMap::iterator End(SequenceMap::iterator it, bool quiesced);

  const absl::Duration ttl_;
  SequenceMap& sequences_;
  PagePool& pool_;
  const LeaseTable& leases_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_ORPHANAGE_H_
