#include "services/manager/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "services/access/access_metrics.h"
#include "services/base/random_bytes.h"
#include "services/cache/inspector.h"
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

// Without a state directory there is none, and only the ids are recovered.
absl::StatusOr<std::unique_ptr<ManagerJournal>> OpenJournal(const ServerOptions& options,
                                                            Recovered* recovered) {
  std::unique_ptr<ManagerJournal> journal;
  std::unique_ptr<StateDirectory> directory;
  if (!options.state_dir.empty()) {
    auto opened = StateDirectory::Open(options.state_dir);
    if (!opened.ok()) return opened.status();
    directory = *std::move(opened);
    auto read = Recover(*directory);
    if (!read.ok()) return read.status();
    *recovered = *std::move(read);
  }
  SequenceId& last = recovered->last_ids.sequence;
  if (last == SequenceId(0)) last = options.before_first_sequence;
  if (directory != nullptr) {
    journal = std::make_unique<ManagerJournal>(std::move(directory), *recovered);
  }
  return journal;
}

}  // namespace

Server::Server(const ServerOptions& options, std::unique_ptr<ManagerJournal> journal,
               Recovered* recovered, std::shared_ptr<RestartMetrics> restart)
    : boot_id_(absl::BytesToHexString(RandomBytes(16))),
      restart_(std::move(restart)),
      journal_(std::move(journal)),
      journal_report_(journal_ == nullptr
                          ? nullptr
                          : std::make_shared<JournalReport>(&journal_->files(), &event_log_)),
      quotas_(options.clock),
      kept_quotas_(&quotas_, journal_.get(), recovered->quotas),
      access_quotas_(options.access, &kept_quotas_),
      gate_(options.access),
      registry_({.pages = options.pages,
                 .pool_size = options.pool_size,
                 .rules = options.rules,
                 .kill_fenced_after = options.kill_fenced_after,
                 .export_socket = options.export_socket,
                 .clock = options.clock,
                 .events = &events_,
                 .event_log = &event_log_,
                 .restart = restart_.get(),
                 .quotas = &quotas_,
                 .journal = journal_.get(),
                 .recovered = recovered,
                 .boot_id = boot_id_}),
      kv_manager_(&registry_, options.budgets, options.clock, &event_log_, &gate_, journal_.get()),
      admin_(&registry_, &event_log_, &kept_quotas_, &gate_,
             {options.budgets, options.rules.lease_ttl, options.kill_fenced_after, options.steering,
              boot_id_}),
      connections_(options.max_connections),
      admin_connections_(kMaxAdminConnections),
      expiry_watch_(std::max(options.rules.lease_ttl, kLeastStandstill),
                    [this](bool continues) { OnExpiry(continues); }) {
  // The registry has told all that is left of the manager before.
  if (journal_ != nullptr) journal_->EndFile();
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
  grpc.services = {&kv_manager_};
  grpc.health_names = {v1::KvManager::service_full_name()};
  grpc.inherited = &inherited;
  grpc.connections = &connections_;
  grpc.max_calls = kMaxCalls;
  grpc.max_unread_answers = kMaxUnreadAnswers;
  grpc.max_receive_bytes = static_cast<int>(wire::kMaxSessionRequestBytes);
  GrpcServerOptions admin = grpc;
  if (options.admin_listen.empty()) {
    grpc.services.push_back(&admin_);
    grpc.health_names.emplace_back(v1::Admin::service_full_name());
  }
  auto started = GrpcServer::Start(grpc);
  if (!started.ok()) return started.status();
  grpc_ = *std::move(started);
  if (!options.admin_listen.empty()) {
    admin.listen = options.admin_listen;
    admin.services = {&admin_};
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

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto restart = std::make_shared<RestartMetrics>();
  Recovered recovered;
  auto journal = OpenJournal(options, &recovered);
  if (!journal.ok()) return journal.status();
  std::unique_ptr<Server> server(
      new Server(options, *std::move(journal), &recovered, std::move(restart)));
  server->access_quotas_.Apply();
  InheritedSockets none;
  InheritedSockets& inherited = options.inherited == nullptr ? none : *options.inherited;
  auto export_socket = ExportSocket::Start(options.export_socket, inherited, &server->registry_);
  if (!export_socket.ok()) return export_socket.status();
  server->export_socket_ = *std::move(export_socket);

  if (absl::Status status = server->Serve(options, inherited); !status.ok()) return status;
  if (!options.metrics_listen.empty()) {
    std::vector<std::shared_ptr<prometheus::Collectable>> told = {
        server->events_.registry(), std::make_shared<PoolMetrics>(&server->registry_),
        std::make_shared<metrics::ConnectionMetrics>(&server->connections_),
        std::make_shared<access::AccessMetrics>(&server->gate_), server->restart_};
    if (server->journal_report_ != nullptr) told.push_back(server->journal_report_);
    auto metrics = metrics::MetricsServer::Start(options.metrics_listen, "folio-manager", told);
    if (!metrics.ok()) return metrics.status();
    server->metrics_ = *std::move(metrics);
  }
  if (absl::Status status = inherited.CheckAllUsed(); !status.ok()) return status;

  absl::Duration period = options.rules.lease_ttl;
  if (options.rules.orphan_ttl > absl::ZeroDuration())
    period = std::min(period, options.rules.orphan_ttl);
  period = std::clamp(period / 10, absl::Milliseconds(10), absl::Seconds(1));
  server->restart_->OnServing();
  server->expiry_watch_.Start();
  server->expiry_ = std::thread([raw = server.get(), period] { raw->ExpiryLoop(period); });
  return server;
}

Server::~Server() {
  // First no new workers, then the sessions, which end in the registry, then the lease expiry.
  // Operators who watch are told the rest of the events and the end.
  event_log_.Close(kWatchersGrace);
  expiry_watch_.Stop();
  export_socket_.reset();
  if (grpc_ != nullptr) grpc_->Shutdown(kShutdownGrace);
  if (admin_grpc_ != nullptr) admin_grpc_->Shutdown(kShutdownGrace);
  health_.reset();
  metrics_.reset();
  stop_.Notify();
  if (expiry_.joinable()) expiry_.join();
  if (journal_ != nullptr) journal_->files().Flush();
}

std::vector<ListenAddress> Server::admin_addresses() const {
  return admin_grpc_ == nullptr ? std::vector<ListenAddress>() : admin_grpc_->addresses();
}

std::vector<ListenAddress> Server::metrics_addresses() const {
  return metrics_ == nullptr ? std::vector<ListenAddress>() : metrics_->addresses();
}

void Server::ExpiryLoop(absl::Duration period) {
  while (!stop_.WaitFor(period)) {
    if (journal_report_ != nullptr) journal_report_->Look();
    registry_.ExpireLeases();
    kv_manager_.EndMuteSessions();
    access_quotas_.Apply();
    expiry_watch_.OnTurn();
  }
}

void Server::OnExpiry(bool continues) {
  if (continues) {
    log::Info("leases are checked again, the manager is healthy");
  } else {
    log::Warning("no lease was checked for the time of one, the registry of workers is stuck");
  }
  const absl::MutexLock lock(&health_mu_);
  expires_ = continues;
  TellHealth();
}

void Server::TellHealth() {
  const bool serving = expires_ && !draining_;
  grpc_->SetServing(serving);
  if (admin_grpc_ != nullptr) admin_grpc_->SetServing(serving);
  health_->SetServing(serving);
}

uint32_t Server::SequencesToAwait() const {
  if (journal_ == nullptr) return registry_.RunningSequences();
  const std::shared_ptr<const Pool> pool = registry_.pool();
  if (pool == nullptr) return 0;
  const auto sequences = cache::Inspector(pool->coordinator()).sequences();
  return static_cast<uint32_t>(
      std::count_if(sequences.begin(), sequences.end(),
                    [](const cache::SequenceInfo& one) { return !one.resumable; }));
}

bool Server::Drain(absl::Duration timeout,
                   const std::function<bool(absl::Duration)>& should_abort) {
  registry_.drains().End();
  {
    const absl::MutexLock lock(&health_mu_);
    draining_ = true;
    TellHealth();
  }
  uint32_t left = SequencesToAwait();
  log::Info("draining", {{"sequences", left}, {"timeout", timeout}});
  event_log_.Append({.kind = EventKind::kDraining, .sequences = left});
  const SteadyTime deadline = SteadyNow() + timeout;
  while (left != 0 && SteadyNow() < deadline && !should_abort(absl::Milliseconds(20))) {
    left = SequencesToAwait();
  }
  log::Info("drained", {{"sequences_left", left}});
  event_log_.Append({.kind = EventKind::kDrained, .sequences = left});
  return left == 0;
}

}  // namespace folio::manager
