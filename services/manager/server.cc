#include "services/manager/server.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "services/access/access_metrics.h"
#include "services/base/random_bytes.h"
#include "services/manager/journal_report.h"
#include "services/manager/pool_metrics.h"
#include "services/metrics/connection_metrics.h"
#include "services/runtime/logging.h"
#include "services/wire/session_limits.h"

namespace folio::manager {
namespace {

// How long running calls may take to finish by themselves. Sessions never do.
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(100);

// How long operators who watch may take to read the last events.
constexpr absl::Duration kWatchersGrace = absl::Seconds(1);

// A call of a synchronous service holds a thread while it lasts. A worker has one Session, and few
// short calls.
constexpr int kMaxCalls = 128;

constexpr int kMaxAdminConnections = 128;

// Such an answer holds a thread too. Clients that read theirs have them within milliseconds.
constexpr size_t kMaxUnreadAnswers = 64;

// With shorter leases a busy machine would be taken for a manager that stands still.
constexpr absl::Duration kLeastStandstill = absl::Seconds(1);

}  // namespace

Server::Server(const ServerOptions& options)
    : boot_id_(absl::BytesToHexString(RandomBytes(16))),
      restart_(std::make_shared<RestartMetrics>()),
      quotas_(options.clock),
      gate_(options.access),
      folders_(options.state_dir),
      connections_(options.max_connections),
      admin_connections_(kMaxAdminConnections) {}

RegistryOptions Server::RegistryFor(const ServerOptions& options, const PoolShare& share) {
  // `beside` is asked when a worker attaches, and all pools are open then.
  RegistryOptions registry = {.pages = options.pages,
                              .pool_size = share.Of(options.pool_size),
                              .rules = options.rules,
                              .kill_fenced_after = options.kill_fenced_after,
                              .export_socket = options.export_socket,
                              .clock = options.clock,
                              .events = &events_,
                              .event_log = {&event_log_, options.pools.empty() ? "" : share.name},
                              .restart = restart_.get(),
                              .quotas = &quotas_,
                              .ids = &ids_,
                              .drains = drains_,
                              .beside = [this, name = share.name] { return pools_->Beside(name); },
                              .boot_id = boot_id_};
  registry.rules.host_swap_bytes = share.Of(options.rules.host_swap_bytes);
  return registry;
}

absl::Status Server::OpenPools(const ServerOptions& options) {
  const std::vector<PoolShare> shares =
      options.pools.empty() ? std::vector<PoolShare>(1) : options.pools;
  std::set<std::string> names;
  for (const PoolShare& share : shares) names.insert(share.name);
  if (absl::Status s = folders_.KeepOthers(names, &ids_); !s.ok()) return s;
  std::vector<std::unique_ptr<ServedPool>> pools;
  for (const PoolShare& share : shares) {
    const PoolName name = {share, static_cast<uint32_t>(pools.size() + 1)};
    auto opened = ServedPool::Open(name, folders_.Of(share.name), RegistryFor(options, share));
    if (!opened.ok()) return opened.status();
    pools.push_back(*std::move(opened));
  }
  ids_.SkipIfUnused(options.before_first_sequence);
  pools_ = std::make_unique<ServedPools>(std::move(pools), &event_log_);
  kept_quotas_ = std::make_unique<KeptQuotas>(&quotas_, pools_->journals());
  access_quotas_ = std::make_unique<AccessQuotas>(options.access, kept_quotas_.get());
  kv_manager_ =
      std::make_unique<KvManagerService>(pools_.get(), options.budgets, options.clock, &gate_);
  const AdminService::Settings settings = {options.budgets, options.rules.lease_ttl,
                                           options.kill_fenced_after, options.steering, boot_id_};
  admin_ = std::make_unique<AdminService>(pools_.get(), &event_log_, kept_quotas_.get(), &gate_,
                                          settings);
  return absl::OkStatus();
}

absl::Status Server::Serve(const ServerOptions& options, InheritedSockets& inherited) {
  GrpcServerOptions grpc;
  if (!options.tls.empty()) {
    auto certificate = CertificateFiles::Open(options.tls);
    if (!certificate.ok()) return certificate.status();
    grpc.certificate = *std::move(certificate);
  }
  grpc.insecure_tcp = options.insecure_tcp;
  grpc.knows_callers = gate_.knows_callers();
  grpc.listen = options.listen;
  grpc.services = {kv_manager_.get()};
  grpc.health_names = {v1::KvManager::service_full_name()};
  grpc.inherited = &inherited;
  grpc.connections = &connections_;
  grpc.max_calls = kMaxCalls;
  grpc.max_unread_answers = kMaxUnreadAnswers;
  grpc.max_receive_bytes = static_cast<int>(wire::kMaxSessionRequestBytes);
  GrpcServerOptions admin = grpc;
  if (options.admin_listen.empty()) {
    grpc.services.push_back(admin_.get());
    grpc.health_names.emplace_back(v1::Admin::service_full_name());
  }
  auto started = GrpcServer::Start(grpc);
  if (!started.ok()) return started.status();
  grpc_ = *std::move(started);
  if (!options.admin_listen.empty()) {
    admin.listen = options.admin_listen;
    admin.services = {admin_.get()};
    admin.health_names = {v1::Admin::service_full_name()};
    admin.connections = &admin_connections_;
    admin.open_warning =
        options.steering
            ? "anybody who reaches this address can see and end the sequences of the daemon"
            : "anybody who reaches this address can see the sequences and workers of the daemon";
    started = GrpcServer::Start(admin);
    if (!started.ok()) return started.status();
    admin_grpc_ = *std::move(started);
  }
  grpc.health_names = {v1::KvManager::service_full_name(), v1::Admin::service_full_name()};
  auto health = HealthServer::Start(grpc, options.health_listen);
  if (!health.ok()) return health.status();
  health_ = *std::move(health);
  return absl::OkStatus();
}

absl::Status Server::ServeMetrics(const ServerOptions& options) {
  if (options.metrics_listen.empty()) return absl::OkStatus();
  std::vector<std::shared_ptr<prometheus::Collectable>> told = {
      events_.registry(), std::make_shared<PoolMetrics>(pools_.get(), !options.pools.empty()),
      std::make_shared<metrics::ConnectionMetrics>(&connections_),
      std::make_shared<access::AccessMetrics>(&gate_), restart_};
  if (const auto journals = pools_->journals(); !journals.empty()) {
    told.push_back(std::make_shared<JournalMetrics>(journals));
  }
  auto metrics = metrics::MetricsServer::Start(options.metrics_listen, "folio-manager", told);
  if (!metrics.ok()) return metrics.status();
  metrics_ = *std::move(metrics);
  return absl::OkStatus();
}

void Server::StartLoops(const ServerOptions& options) {
  restart_->OnServing();
  absl::Duration period = options.rules.lease_ttl;
  if (options.rules.orphan_ttl > absl::ZeroDuration())
    period = std::min(period, options.rules.orphan_ttl);
  period = std::clamp(period / 10, absl::Milliseconds(10), absl::Seconds(1));
  for (const auto& pool : pools_->all()) {
    pool->Start(period, std::max(options.rules.lease_ttl, kLeastStandstill),
                [this](bool continues) { OnExpiry(continues); });
  }
  upkeep_ = std::thread([this, period] {
    while (!stop_.WaitFor(period)) {
      kv_manager_->EndMuteSessions();
      access_quotas_->Apply();
    }
  });
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  if (absl::Status status = server->OpenPools(options); !status.ok()) return status;
  server->access_quotas_->Apply();
  server->kept_quotas_->Restore(server->pools_->QuotasBefore());
  InheritedSockets none;
  InheritedSockets& inherited = options.inherited == nullptr ? none : *options.inherited;
  auto export_socket = ExportSocket::Start(options.export_socket, inherited, server->pools_.get());
  if (!export_socket.ok()) return export_socket.status();
  server->export_socket_ = *std::move(export_socket);

  absl::Status status = server->Serve(options, inherited);
  if (status.ok()) status = server->ServeMetrics(options);
  if (status.ok()) status = inherited.CheckAllUsed();
  if (!status.ok()) return status;
  server->StartLoops(options);
  return server;
}

Server::~Server() {
  // First no new workers, then the sessions, which end in the registry. Operators who watch are
  // told the rest of the events and the end.
  event_log_.Close(kWatchersGrace);
  if (pools_ != nullptr) {
    for (const auto& pool : pools_->all()) pool->End();
  }
  export_socket_.reset();
  if (grpc_ != nullptr) grpc_->Shutdown(kShutdownGrace);
  if (admin_grpc_ != nullptr) admin_grpc_->Shutdown(kShutdownGrace);
  health_.reset();
  metrics_.reset();
  stop_.Notify();
  if (upkeep_.joinable()) upkeep_.join();
}

std::vector<ListenAddress> Server::admin_addresses() const {
  return admin_grpc_ == nullptr ? std::vector<ListenAddress>() : admin_grpc_->addresses();
}

std::vector<ListenAddress> Server::metrics_addresses() const {
  return metrics_ == nullptr ? std::vector<ListenAddress>() : metrics_->addresses();
}

void Server::OnExpiry(bool continues) {
  if (continues) {
    log::Info("leases are checked again, the manager is healthy");
  } else {
    log::Warning("no lease was checked for the time of one, the registry of workers is stuck");
  }
  const absl::MutexLock lock(&health_mu_);
  stuck_ += continues ? -1 : 1;
  TellHealth();
}

void Server::TellHealth() {
  const bool serving = stuck_ == 0 && !draining_;
  grpc_->SetServing(serving);
  if (admin_grpc_ != nullptr) admin_grpc_->SetServing(serving);
  health_->SetServing(serving);
}

bool Server::Drain(absl::Duration timeout,
                   const std::function<bool(absl::Duration)>& should_abort) {
  drains_->End();
  {
    const absl::MutexLock lock(&health_mu_);
    draining_ = true;
    TellHealth();
  }
  uint32_t left = pools_->SequencesToAwait();
  log::Info("draining", {{"sequences", left}, {"timeout", timeout}});
  event_log_.Append({.kind = EventKind::kDraining, .sequences = left});
  const SteadyTime deadline = SteadyNow() + timeout;
  while (left != 0 && SteadyNow() < deadline && !should_abort(absl::Milliseconds(20))) {
    left = pools_->SequencesToAwait();
  }
  log::Info("drained", {{"sequences_left", left}});
  event_log_.Append({.kind = EventKind::kDrained, .sequences = left});
  return left == 0;
}

}  // namespace folio::manager
