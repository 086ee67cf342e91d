// Which workers may write pages, and until when. A worker is leased from Add until it is fenced;
// fencing is final. Thread-compatible; time is handed in.
#ifndef FOLIO_SERVICES_CACHE_LEASE_H_
#define FOLIO_SERVICES_CACHE_LEASE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/common/ids.h"

namespace folio::cache {

class LeaseTable {
 public:
  explicit LeaseTable(absl::Duration ttl) : ttl_(ttl) {}

  struct Lease {
    std::string name;
    absl::Time deadline;
    bool fenced = false;
  };

  WorkerId Add(std::string name, absl::Time now);

  // Extends a lease to `now + ttl`; a deadline that has passed without fencing is extended too,
  // since nothing was taken from the worker yet. NOT_FOUND for an unknown worker,
  // FAILED_PRECONDITION for a fenced one.
  absl::Status Renew(WorkerId worker, absl::Time now);

  // False when the worker is unknown or was fenced before.
  bool Fence(WorkerId worker);
  // Forgets the worker: its process is gone.
  void Remove(WorkerId worker) { leases_.erase(worker); }

  bool IsLive(WorkerId worker) const;
  bool IsFenced(WorkerId worker) const;
  // Leased workers whose deadline is before `now`.
  std::vector<WorkerId> Expired(absl::Time now) const;
  const std::map<WorkerId, Lease>& all() const { return leases_; }

 private:
  absl::Duration ttl_;
  WorkerId last_;
  std::map<WorkerId, Lease> leases_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_LEASE_H_
