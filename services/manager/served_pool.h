// ServedPool is one pool of a manager with all that belongs to it alone: its workers, its pages and
// its journal, and the loop that ends leases. One pool holds no other back.
#ifndef FOLIO_SERVICES_MANAGER_SERVED_POOL_H_
#define FOLIO_SERVICES_MANAGER_SERVED_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/steady_wait.h"
#include "services/manager/journal_report.h"
#include "services/manager/manager_journal.h"
#include "services/manager/pool_events.h"
#include "services/manager/pool_share.h"
#include "services/manager/registry_options.h"
#include "services/manager/turn_watch.h"
#include "services/manager/worker_registry.h"

namespace folio::manager {

// The words of --pools about a pool, and its place there, from 1.
struct PoolName {
  PoolShare share;
  uint32_t number = 1;
};

// Thread-safe, except for Start and End.
class ServedPool {
 public:
  // With a `state_dir` it continues from the journal there, else from what `registry` says was
  // recovered, if anything. `registry` names no journal. The errors are those of
  // StateDirectory::Open and Recover.
  static absl::StatusOr<std::unique_ptr<ServedPool>> Open(PoolName name,
                                                          const std::string& state_dir,
                                                          const RegistryOptions& registry);
  ~ServedPool();
  ServedPool(const ServedPool&) = delete;
  ServedPool& operator=(const ServedPool&) = delete;

  // Ends leases every `period`. `report` is told false when a thread has kept the registry's lock
  // for `limit`, which stops that, and true when it continues.
  void Start(absl::Duration period, absl::Duration limit, std::function<void(bool)> report);
  // Nothing is reported after this, which may come twice or without Start.
  void End();

  const std::string& name() const { return name_.share.name; }
  double part() const { return name_.share.part; }
  uint32_t number() const { return name_.number; }
  const PoolEvents& events() const { return events_; }
  WorkerRegistry& registry() { return registry_; }
  const WorkerRegistry& registry() const { return registry_; }
  // A reply to a worker leaves after this, so that a worker knows no more than the next manager.
  void Flush();
  // Sequences that a manager waits for before it ends: those that run, or with a journal those that
  // would end with this manager.
  uint32_t SequencesToAwait() const;

 private:
  friend class ServedPools;
  // `recovered` is null without a journal.
  ServedPool(PoolName name, RegistryOptions registry, std::unique_ptr<ManagerJournal> journal,
             Recovered* recovered);
  void Loop(absl::Duration period);

  const PoolName name_;
  const PoolEvents events_;
  const std::unique_ptr<ManagerJournal> journal_;  // null without a state directory
  std::optional<JournalReport> journal_report_;    // with a journal
  const cache::QuotasByTenant quotas_before_;      // that operators had set
  WorkerRegistry registry_;
  std::optional<TurnWatch> watch_;
  SteadyNotification stop_;
  std::thread thread_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SERVED_POOL_H_
