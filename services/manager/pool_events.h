// PoolEvents is the manager's event log as one pool uses it: each event gets the name of the pool.
#ifndef FOLIO_SERVICES_MANAGER_POOL_EVENTS_H_
#define FOLIO_SERVICES_MANAGER_POOL_EVENTS_H_

#include <string>
#include <utility>

#include "services/manager/event_log.h"

namespace folio::manager {

// Thread-safe, and takes the innermost lock, as EventLog::Append.
class PoolEvents {
 public:
  // Borrows the log. Without one nothing is kept. With an empty name events name no pool.
  PoolEvents(EventLog* log = nullptr, std::string pool = "")  // NOLINT(google-explicit-constructor)
      : log_(log), pool_(std::move(pool)) {}

  bool kept() const { return log_ != nullptr; }
  void Append(Event event) const {
    if (log_ == nullptr) return;
    if (!pool_.empty()) event.pool = pool_;
    log_->Append(std::move(event));
  }

 private:
  EventLog* log_;
  std::string pool_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_EVENTS_H_
