// The whole manager in one object: roster, export socket, gRPC services, lease expiry. What main
// runs, and what tests run in their own process.
#ifndef FOLIO_SERVICES_MANAGER_SERVER_H_
#define FOLIO_SERVICES_MANAGER_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "services/common/clock.h"
#include "services/common/grpc_server.h"
#include "services/common/listen_address.h"
#include "services/manager/admin_service.h"
#include "services/manager/export_socket.h"
#include "services/manager/kv_manager_service.h"
#include "services/manager/page_memory.h"
#include "services/manager/pool_size.h"
#include "services/manager/worker_roster.h"
#include "services/policy/budget.h"

namespace folio::manager {

struct ServerOptions {
  std::vector<ListenAddress> listen;
  std::string export_socket;
  const PageSource* pages = nullptr;  // borrowed
  PoolSize pool_size;
  absl::Duration lease_ttl = absl::Seconds(10);
  absl::Duration orphan_ttl;     // 0: sequences end with their worker
  const Clock* clock = nullptr;  // borrowed; of leases
  policy::BudgetRules budgets;
};

// Thread-safe.
class Server {
 public:
  // Serves when it returns. Errors as of GrpcServer::Start and ExportSocket::Start.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // At once: running calls are cancelled, socket files removed.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Health says NOT_SERVING, Attach and Open refuse; then waits until no sequence runs, at most
  // `timeout`, and asks `hurry` now and then whether to stop waiting. True when none was left.
  bool Drain(absl::Duration timeout, const std::function<bool(absl::Duration)>& hurry);

  const std::vector<ListenAddress>& addresses() const { return grpc_->addresses(); }
  const WorkerRoster& roster() const { return roster_; }

 private:
  explicit Server(const ServerOptions& options);
  void ExpiryLoop(absl::Duration period);

  WorkerRoster roster_;
  KvManagerService kv_manager_;
  AdminService admin_;
  std::unique_ptr<ExportSocket> export_socket_;
  std::unique_ptr<GrpcServer> grpc_;
  absl::Notification stop_;
  std::thread expiry_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_SERVER_H_
