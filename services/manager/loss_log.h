// LogLeft logs what fenced workers leave behind: orphans, sequences that were given up, and pages
// that wait for the end of a process.
#ifndef FOLIO_SERVICES_MANAGER_LOSS_LOG_H_
#define FOLIO_SERVICES_MANAGER_LOSS_LOG_H_

#include "absl/time/time.h"
#include "services/cache/coordinator.h"
#include "services/cache/inspector.h"
#include "services/manager/pool_events.h"

namespace folio::manager {

// `before` is the pool as it was before they were fenced. Nothing else may fence workers meanwhile.
// Sequences that were given up are also events of `event_log`. Any thread.
void LogLeft(const cache::Coordinator& coordinator, const cache::PoolInfo& before,
             absl::Duration orphan_ttl, const PoolEvents& event_log);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_LOSS_LOG_H_
