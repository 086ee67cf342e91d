// Server is the whole manager in one object: registry, export socket, gRPC services and lease
// expiry. The program runs one, and so do tests, in their own process.
#ifndef FOLIO_SERVICES_MANAGER_SERVER_H_
#define FOLIO_SERVICES_MANAGER_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/access/access_list.h"
#include "services/access/gate.h"
#include "services/base/clock.h"
#include "services/base/steady_wait.h"
#include "services/cache/id_source.h"
#include "services/cache/tenant_quotas.h"
#include "services/grpc/grpc_server.h"
#include "services/grpc/health_server.h"
#include "services/manager/access_quotas.h"
#include "services/manager/admin_service.h"
#include "services/manager/event_log.h"
#include "services/manager/event_metrics.h"
#include "services/manager/export_socket.h"
#include "services/manager/kept_quotas.h"
#include "services/manager/kv_manager_service.h"
#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/pool_size.h"
#include "services/manager/pool_folders.h"
#include "services/manager/pool_share.h"
#include "services/manager/restart_metrics.h"
#include "services/manager/served_pools.h"
#include "services/metrics/metrics_server.h"
#include "services/policy/budget.h"
#include "services/runtime/connection_flag.h"
#include "services/runtime/connection_limit.h"
#include "services/runtime/listen_address.h"
#include "services/tls/certificate.h"

namespace folio::manager {

struct ServerOptions {
  std::vector<ListenAddress> listen;
  std::vector<ListenAddress> admin_listen;  // where Admin is served, if not on `listen`
  std::string export_socket;
  std::string state_dir;  // of the journal, from which the next manager continues; none if empty
  // The ids of sequences begin behind it, unless the journal has some already.
  SequenceId before_first_sequence;
  std::vector<ListenAddress> metrics_listen;
  TlsFiles tls;                              // of `listen` and `admin_listen`
  bool insecure_tcp = false;                 // as in GrpcServerOptions
  std::vector<ListenAddress> health_listen;  // where grpc.health.v1 is served, and nothing else
  InheritedSockets* inherited = nullptr;     // borrowed during Start; may be null
  const PageSource* pages = nullptr;         // borrowed
  PoolSize pool_size;  // of all pools together, as the swap memory in the rules
  PoolRules rules;
  std::vector<PoolShare> pools;  // none: one pool with everything, whose name is told nowhere
  absl::Duration kill_fenced_after = absl::ZeroDuration();  // 0: never
  const Clock* clock = nullptr;                             // borrowed, for leases
  policy::BudgetRules budgets;
  bool steering = true;                          // operators may change something
  std::shared_ptr<access::AccessList> access;    // the callers; null if every one may call
  int max_connections = kDefaultMaxConnections;  // on all addresses of `listen` together
};

// Health is SERVING unless the server drains, or the loop that ends leases of some pool makes no
// turn for a lease (at least a second). A thread that keeps the registry's lock stops that loop.
// Thread-safe.
class Server {
 public:
  // The server answers when this returns. The errors are those of GrpcServer::Start,
  // ExportSocket::Start, CertificateFiles::Open and ServedPool::Open.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Cancels running calls and removes the socket files.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Turns health to NOT_SERVING and makes Attach and Open refuse. Then waits up to `timeout` until
  // no sequence runs, or with a journal none that would end with this manager. `should_abort` waits
  // for the given time and returns true to stop waiting. Returns true if no sequence was left.
  bool Drain(absl::Duration timeout, const std::function<bool(absl::Duration)>& should_abort);

  const std::vector<ListenAddress>& addresses() const { return grpc_->addresses(); }
  std::vector<ListenAddress> admin_addresses() const;  // empty if Admin is on `listen`
  std::vector<ListenAddress> health_addresses() const { return health_->addresses(); }
  std::vector<ListenAddress> metrics_addresses() const;
  // That of the first pool.
  const WorkerRegistry& registry() const { return pools_->all().front()->registry(); }
  // Random for each server, 32 hexadecimal digits.
  const std::string& boot_id() const { return boot_id_; }

 private:
  explicit Server(const ServerOptions& options);
  absl::Status OpenPools(const ServerOptions& options);
  RegistryOptions RegistryFor(const ServerOptions& options, const PoolShare& share);
  // Starts the gRPC servers.
  absl::Status Serve(const ServerOptions& options, InheritedSockets& inherited);
  absl::Status ServeMetrics(const ServerOptions& options);
  void StartLoops(const ServerOptions& options);
  // A loop that ends leases stands still, or continues.
  void OnExpiry(bool continues);
  void TellHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mu_);

  const std::string boot_id_;
  const std::shared_ptr<RestartMetrics> restart_;
  EventMetrics events_;
  EventLog event_log_;
  cache::TenantQuotas quotas_;
  // These two and the services are set by OpenPools.
  std::unique_ptr<KeptQuotas> kept_quotas_;
  std::unique_ptr<AccessQuotas> access_quotas_;  // used by Start, and then by the upkeep
  access::Gate gate_;
  cache::IdSource ids_;
  const std::shared_ptr<Drains> drains_ = std::make_shared<Drains>();
  PoolFolders folders_;
  std::unique_ptr<ServedPools> pools_;
  std::unique_ptr<KvManagerService> kv_manager_;
  std::unique_ptr<AdminService> admin_;
  ConnectionLimit connections_;
  // Operators get through when workers, or strangers, have all connections.
  ConnectionLimit admin_connections_;
  std::unique_ptr<ExportSocket> export_socket_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<GrpcServer> admin_grpc_;  // null without admin_listen
  std::unique_ptr<HealthServer> health_;
  std::unique_ptr<metrics::MetricsServer> metrics_;  // null without metrics_listen
  SteadyNotification stop_;
  std::thread upkeep_;  // of sessions without a hello, and of quotas
  absl::Mutex health_mu_;
  bool draining_ ABSL_GUARDED_BY(health_mu_) = false;
  size_t stuck_ ABSL_GUARDED_BY(health_mu_) = 0;  // loops that make no turns
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SERVER_H_
