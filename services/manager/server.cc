#include "services/manager/server.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "services/manager/pool_metrics.h"
#include "services/runtime/logging.h"

namespace folio::manager {
namespace {

// How long running calls may take to finish by themselves. Sessions never do.
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(100);

}  // namespace

Server::Server(const ServerOptions& options)
    : registry_({options.pages, options.pool_size, options.lease_ttl, options.orphan_ttl,
                 options.export_socket, options.clock, &events_}),
      kv_manager_(&registry_, options.budgets),
      admin_(&registry_, options.budgets) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  InheritedSockets none;
  InheritedSockets& inherited = options.inherited == nullptr ? none : *options.inherited;
  auto export_socket = ExportSocket::Start(options.export_socket, inherited, &server->registry_);
  if (!export_socket.ok()) return export_socket.status();
  server->export_socket_ = *std::move(export_socket);

  GrpcServerOptions grpc;
  grpc.listen = options.listen;
  grpc.services = {&server->kv_manager_, &server->admin_};
  grpc.health_names = {v1::KvManager::service_full_name(), v1::Admin::service_full_name()};
  grpc.inherited = &inherited;
  auto started = GrpcServer::Start(grpc);
  if (!started.ok()) return started.status();
  server->grpc_ = *std::move(started);
  if (!options.health_listen.empty()) {
    grpc.listen = options.health_listen;
    grpc.services.clear();
    auto health = GrpcServer::Start(grpc);
    if (!health.ok()) return health.status();
    server->health_ = *std::move(health);
  }
  if (!options.metrics_listen.empty()) {
    auto metrics = metrics::MetricsServer::Start(
        options.metrics_listen, "folio-manager",
        {server->events_.registry(), std::make_shared<PoolMetrics>(&server->registry_)});
    if (!metrics.ok()) return metrics.status();
    server->metrics_ = *std::move(metrics);
  }
  if (absl::Status status = inherited.CheckAllUsed(); !status.ok()) return status;

  absl::Duration period = options.lease_ttl;
  if (options.orphan_ttl > absl::ZeroDuration()) period = std::min(period, options.orphan_ttl);
  period = std::clamp(period / 10, absl::Milliseconds(10), absl::Seconds(1));
  server->expiry_ = std::thread([raw = server.get(), period] { raw->ExpiryLoop(period); });
  return server;
}

Server::~Server() {
  // First no new workers, then the sessions, which end in the registry, then the lease expiry.
  export_socket_.reset();
  if (grpc_ != nullptr) grpc_->Shutdown(kShutdownGrace);
  health_.reset();
  metrics_.reset();
  stop_.Notify();
  if (expiry_.joinable()) expiry_.join();
}

std::vector<ListenAddress> Server::health_addresses() const {
  return health_ == nullptr ? std::vector<ListenAddress>() : health_->addresses();
}

std::vector<ListenAddress> Server::metrics_addresses() const {
  return metrics_ == nullptr ? std::vector<ListenAddress>() : metrics_->addresses();
}

void Server::ExpiryLoop(absl::Duration period) {
  while (!stop_.WaitForNotificationWithTimeout(period)) registry_.ExpireLeases();
}

bool Server::Drain(absl::Duration timeout,
                   const std::function<bool(absl::Duration)>& should_abort) {
  registry_.StartDraining();
  grpc_->SetServing(false);
  if (health_ != nullptr) health_->SetServing(false);
  log::Info("draining", {{"sequences", registry_.RunningSequences()}, {"timeout", timeout}});
  const absl::Time deadline = absl::Now() + timeout;
  uint32_t left = registry_.RunningSequences();
  while (left != 0 && absl::Now() < deadline && !should_abort(absl::Milliseconds(20))) {
    left = registry_.RunningSequences();
  }
  log::Info("drained", {{"sequences_left", left}});
  return left == 0;
}

}  // namespace folio::manager
