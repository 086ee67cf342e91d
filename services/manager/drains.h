// Drains says who takes no new sequences: a manager that is about to end, or what an operator has
// chosen, which is the whole manager or single workers. Sequences that run are not its business.
//
// Thread-safe. Its lock is an innermost one.
#ifndef FOLIO_SERVICES_MANAGER_DRAINS_H_
#define FOLIO_SERVICES_MANAGER_DRAINS_H_

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/base/ids.h"

namespace folio::manager {

class Drains {
 public:
  // The manager is about to end, which cannot be undone.
  void End();
  bool ending() const;

  // An operator's order for the whole manager, or for one worker.
  void Order(bool drain);
  void Order(WorkerId worker, bool drain);
  // There is such an order.
  bool ordered() const;
  bool ordered(WorkerId worker) const;
  // The worker is gone.
  void Forget(WorkerId worker);

  // UNAVAILABLE says why no sequence may be opened or claimed, at any worker or at this one.
  absl::Status MayOpen() const;
  absl::Status MayOpen(WorkerId worker) const;

 private:
  mutable absl::Mutex mu_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool all_ ABSL_GUARDED_BY(mu_) = false;
  std::set<WorkerId> workers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_DRAINS_H_
