// RegistryOptions is what a WorkerRegistry works with. It is plain data.
#ifndef FOLIO_SERVICES_MANAGER_REGISTRY_OPTIONS_H_
#define FOLIO_SERVICES_MANAGER_REGISTRY_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/cache/id_source.h"
#include "services/cache/tenant_quotas.h"
#include "services/manager/drains.h"
#include "services/manager/event_metrics.h"
#include "services/manager/manager_journal.h"
#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/pool_size.h"
#include "services/manager/pool.h"
#include "services/manager/pool_events.h"
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
  PoolEvents event_log = {};                    // with the name of the pool, if it has one
  RestartMetrics* restart = nullptr;            // borrowed; may be null
  const cache::TenantQuotas* quotas = nullptr;  // borrowed; may be null
  ManagerJournal* journal = nullptr;            // borrowed; may be null
  cache::IdSource* ids = nullptr;               // borrowed; may be null
  // Shared by the pools of a manager. Null: the registry has drains of its own.
  std::shared_ptr<Drains> drains = {};
  // Bytes that other pools have, by device, see PoolSize::beside. May be empty.
  std::function<std::map<std::string, uint64_t>()> beside = {};
  // As the journal of the manager before this one has it. Borrowed by the constructor.
  Recovered* recovered = nullptr;
  std::string boot_id = {};  // of this start of the manager
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_REGISTRY_OPTIONS_H_
