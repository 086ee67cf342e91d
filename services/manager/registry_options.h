// RegistryOptions is what a WorkerRegistry works with. It is plain data.
#ifndef FOLIO_SERVICES_MANAGER_REGISTRY_OPTIONS_H_
#define FOLIO_SERVICES_MANAGER_REGISTRY_OPTIONS_H_

#include <string>

#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/cache/tenant_quotas.h"
#include "services/manager/event_log.h"
#include "services/manager/event_metrics.h"
#include "services/manager/manager_journal.h"
#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/pool_size.h"
#include "services/manager/pool.h"
#include "services/manager/restart_metrics.h"

namespace folio::manager {

struct RegistryOptions {
  const PageSource* pages = nullptr;  // borrowed
  PoolSize pool_size;
  PoolRules rules;
  // How long processes of a fenced worker may block pages before they are killed; 0 forever.
  absl::Duration kill_fenced_after = absl::ZeroDuration();
  std::string export_socket;                    // where workers fetch descriptors
  const Clock* clock = nullptr;                 // borrowed
  EventMetrics* events = nullptr;               // borrowed; may be null
  EventLog* event_log = nullptr;                // borrowed; may be null
  RestartMetrics* restart = nullptr;            // borrowed; may be null
  const cache::TenantQuotas* quotas = nullptr;  // borrowed; may be null
  ManagerJournal* journal = nullptr;            // borrowed; may be null
  // As the journal of the manager before this one has it. Borrowed by the constructor.
  Recovered* recovered = nullptr;
  std::string boot_id;  // of this start of the manager
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_REGISTRY_OPTIONS_H_
