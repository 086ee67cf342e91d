// LeaseTable says which workers may write pages, and until when. A worker has a lease from Add
// until it is fenced, and fencing is final. Fencing does not stop the worker's process, so pages it
// could still write stay blocked until that process has ended (see orphanage.h).
//
// Thread-compatible, guarded by the coordinator's lock. Callers pass the time in.
#ifndef FOLIO_SERVICES_CACHE_LEASE_H_
#define FOLIO_SERVICES_CACHE_LEASE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"
#include "services/base/step_progress.h"

namespace folio::cache {

class LeaseTable {
 public:
  explicit LeaseTable(absl::Duration ttl) : ttl_(ttl) {}

  struct Lease {
    std::string name;
    SteadyTime deadline;
    bool fenced = false;
    std::optional<StepProgress> progress;  // as the worker told it last
  };

  // Precondition: the id was never used.
  void Add(WorkerId worker, std::string name, SteadyTime now);
  // A worker of a manager before this one. It is fenced.
  void AddLost(WorkerId worker, std::string name) {
    leases_.insert_or_assign(worker, Lease{std::move(name), SteadyTime(), true, std::nullopt});
  }

  // Extends a lease to `now + ttl`, even after its deadline: until it is fenced nothing was taken
  // from the worker. NOT_FOUND for an unknown worker, FAILED_PRECONDITION for a fenced one. Without
  // `progress` what the worker told before stays.
  absl::Status Renew(WorkerId worker, SteadyTime now,
                     const std::optional<StepProgress>& progress = std::nullopt);

  // False when the worker is unknown or was fenced before.
  bool Fence(WorkerId worker);
  // Forgets the worker, whose process has ended.
  void Remove(WorkerId worker) { leases_.erase(worker); }

  bool IsLive(WorkerId worker) const;
  bool IsFenced(WorkerId worker) const;
  // Workers with a lease whose deadline is before `now`.
  std::vector<WorkerId> Expired(SteadyTime now) const;
  const std::map<WorkerId, Lease>& all() const { return leases_; }

 private:
  absl::Duration ttl_;
  std::map<WorkerId, Lease> leases_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_LEASE_H_
