#include "services/manager/worker_registry.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/base/protocol.h"
#include "services/base/random_bytes.h"
#include "services/base/secrets_match.h"
#include "services/cache/inspector.h"
#include "services/manager/text_size.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"
#include "services/wire/layout.h"
#include "services/wire/protocol_versions.h"

namespace folio::manager {
namespace {

std::string NewToken() { return absl::BytesToHexString(RandomBytes(16)); }

ExportGrant MakeGrant(const std::shared_ptr<const Pool>& pool, Rank rank, bool maps_swap) {
  const PoolExport& memory = pool->memory();
  const auto copy = [](int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); };
  ExportGrant grant = {pool, copy(memory.pool_fd(rank)), copy(memory.score_board_fd()), {}};
  if (maps_swap && memory.swap_fd(rank) >= 0) grant.swap = copy(memory.swap_fd(rank));
  return grant;
}

}  // namespace

WorkerRegistry::WorkerRegistry(Options options)
    : options_(std::move(options)),
      drains_(options_.drains == nullptr ? std::make_shared<Drains>() : options_.drains),
      pool_({.pages = options_.pages,
             .size = options_.pool_size,
             .beside = options_.beside,
             .rules = options_.rules,
             .users = {.clock = options_.clock,
                       .observer = options_.events,
                       .quotas = options_.quotas,
                       .journal = options_.journal,
                       .ids = options_.ids},
             .last_ids =
                 options_.recovered == nullptr ? cache::LastIds() : options_.recovered->last_ids}),
      watch_([this](WorkerProcess process) { ProcessEnded(process); }) {
  if (options_.recovered != nullptr) Restore(std::move(*options_.recovered));
}

absl::Status WorkerRegistry::CheckDevice(const v1::AttachRequest& request) const {
  const bool on_gpu = request.device() == v1::DEVICE_KIND_CUDA;
  if (on_gpu == options_.pages->on_gpus()) return absl::OkStatus();
  if (on_gpu) {
    return absl::FailedPreconditionError(
        "device: the worker computes on a GPU and the manager's pages are in host memory; start "
        "the manager with --device=cuda:N");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "device: the worker computes on the CPU and the manager's pages are in memory of ",
      options_.pages->device(), "; start the manager with --device=cpu"));
}

absl::Status WorkerRegistry::CheckReplaceable(const absl::Status& differs) const {
  for (const auto& [id, worker] : workers_) {
    const auto fetched = [](const RankProcess& rank) { return rank.fetched; };
    if (worker.fenced || std::none_of(worker.ranks.begin(), worker.ranks.end(), fetched)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(differs.message(), "; end the workers of one model before those of another ",
                     "attach, now ", WorkerName(id), " (process ", worker.pid(), ")"));
  }
  return pool_.CheckUnused();
}

void WorkerRegistry::ForgetAttachments() {
  for (const auto& [id, worker] : workers_) {
    log::Warning("attachment forgotten", {{"worker", WorkerName(id)},
                                          {"name", worker.name},
                                          {"why", "a worker of another model attaches"}});
    Current().ConfirmExited(id);
    drains_->Forget(id);
  }
  workers_.clear();
}

absl::Status WorkerRegistry::MakePool(const v1::ModelLayout& layout) {
  if (absl::Status status = pool_.Make(layout); !status.ok()) return status;
  Record({.kind = EventKind::kPoolCreated,
          .pages = cache::Inspector(Current()).pool().total,
          .text = layout.model()});
  return absl::OkStatus();
}

absl::Status WorkerRegistry::MakeOrCompare(const v1::ModelLayout& layout) {
  std::shared_ptr<const Pool> pool = pool_.current();
  if (pool == nullptr) return MakePool(layout);
  const absl::Status differs = wire::CompareLayouts(pool->layout(), layout);
  if (differs.ok()) return absl::OkStatus();
  pool.reset();  // the pool is unused only if no caller has it
  absl::Status status = CheckReplaceable(differs);
  if (status.ok()) status = wire::CheckLayout(layout);
  if (!status.ok()) return status;
  ForgetAttachments();
  return MakePool(layout);
}

absl::StatusOr<v1::AttachResponse> WorkerRegistry::Attach(const v1::AttachRequest& request,
                                                          const std::string& peer) {
  absl::MutexLock lock(&mu_);
  // First, as the next manager has the pool's memory from the workers that this one still knows.
  if (drains_->ending()) {
    return absl::UnavailableError("the manager is draining; attach to the next one");
  }
  // It is over also if this attachment is refused below.
  if (request.has_previous_session()) EndPrevious(request.previous_session());
  const absl::StatusOr<uint32_t> version = wire::ChooseVersion({}, request);
  if (!version.ok()) return version.status();
  absl::Status status = CheckTextSize("worker_name", request.worker_name(), kMaxLabelBytes);
  if (!status.ok()) return status;
  if (!request.has_layout()) return absl::InvalidArgumentError("layout: must be set");

  status = CheckDevice(request);
  if (status.ok()) status = CheckAwaited(request);
  if (status.ok()) status = MakeOrCompare(request.layout());
  if (!status.ok()) {
    log::Warning("attach refused",
                 {{"name", request.worker_name()}, {"peer", peer}, {"reason", status}});
    Record({.kind = EventKind::kAttachRefused,
            .worker_name = request.worker_name(),
            .code = status.code(),
            .text = std::string(status.message())});
    return status;
  }
  const std::shared_ptr<const Pool> pool = pool_.current();
  const WorkerId id = pool->coordinator().AddWorker(request.worker_name());
  AttachedWorker& worker = workers_[id];
  worker.name = request.worker_name();
  worker.keeps_connection = request.keeps_export_connection();
  worker.maps_swap = request.maps_swap_memory();
  worker.ranks.resize(pool->memory().ranks());
  for (RankProcess& rank : worker.ranks) rank.export_token = NewToken();
  worker.session_token = NewToken();
  log::Info("worker attached", {{"worker", WorkerName(id)},
                                {"name", worker.name},
                                {"peer", peer},
                                {"protocol_version", *version}});
  Record({.kind = EventKind::kWorkerAttached, .worker = id, .worker_name = worker.name});

  v1::AttachResponse response;
  response.set_worker_id(WorkerName(id));
  response.set_export_token(worker.ranks[0].export_token);
  for (size_t rank = 1; rank < worker.ranks.size(); ++rank) {
    response.add_rank_export_tokens(worker.ranks[rank].export_token);
  }
  response.set_session_token(worker.session_token);
  response.set_export_socket(options_.export_socket);
  *response.mutable_pool() = pool->Describe(worker.maps_swap);
  response.set_lease_ttl_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.rules.lease_ttl)));
  response.set_brings_pool(worker.brings_pool = awaited_ != nullptr);
  response.set_manager_boot_id(options_.boot_id);
  response.set_protocol_version(*version);
  SaveWorker(id, worker);
  if (options_.journal != nullptr) options_.journal->files().Flush();
  return response;
}

absl::StatusOr<ExportGrant> WorkerRegistry::RedeemExportToken(absl::string_view token,
                                                              ExportPeer&& peer) {
  absl::MutexLock lock(&mu_);
  for (auto& [id, worker] : workers_) {
    for (uint32_t rank = 0; rank < worker.ranks.size(); ++rank) {
      RankProcess& process = worker.ranks[rank];
      if (!SecretsMatch(process.export_token, token) || worker.fenced) continue;
      if (!peer.brought.empty() && !worker.brings_pool) {
        return absl::InvalidArgumentError(
            "descriptors came with an export token, and none are due");
      }
      process.export_token.clear();
      absl::Status status = Bring(Rank(rank), std::move(peer.brought));
      if (!status.ok()) return status;
      const bool by_pidfd = peer.pidfd.ok();
      if (!by_pidfd && !worker.keeps_connection) return peer.pidfd.status();
      process.fetched = true;
      process.pid = peer.pid;
      if (peer.pid != 0) process.started = StartOfProcess(peer.pid);
      SaveWorker(id, worker);
      if (options_.journal != nullptr) options_.journal->files().Flush();
      for (const WorkerProcess& former : pool_.NoteMapped({id, Rank(rank)}, peer.pid)) {
        watch_.Unwatch(former);
      }
      watch_.Watch({id, Rank(rank)},
                   {by_pidfd ? *std::move(peer.pidfd) : std::move(peer.connection), by_pidfd});
      log::Info("pool descriptors handed out", {{"worker", WorkerName(id)},
                                                {"name", worker.name},
                                                {"rank", rank},
                                                {"pid", peer.pid},
                                                {"uid", peer.uid},
                                                {"watched_by", by_pidfd ? "pidfd" : "connection"}});
      return MakeGrant(pool_.current(), Rank(rank), worker.maps_swap);
    }
  }
  return absl::NotFoundError(
      "export token: unknown or used; each Attach gives one for each rank, for one use, until the "
      "lease runs out or a worker of another model attaches");
}

absl::StatusOr<BegunSession> WorkerRegistry::BeginSession(const v1::SessionHello& hello,
                                                          std::function<void()> cancel) {
  const std::optional<WorkerId> id = ParseWorkerName(hello.worker_id());
  absl::MutexLock lock(&mu_);
  const auto it = id.has_value() ? workers_.find(*id) : workers_.end();
  if (it == workers_.end() || it->second.fenced) {
    return absl::NotFoundError(absl::StrCat("hello.worker_id: \"", hello.worker_id(),
                                            "\" is not attached, or its lease ran out; "
                                            "attach again"));
  }
  AttachedWorker& worker = it->second;
  if (worker.session_began) {
    return absl::FailedPreconditionError(absl::StrCat("hello.session_token: ", hello.worker_id(),
                                                      " has a session already; attach again"));
  }
  if (!SecretsMatch(worker.session_token, hello.session_token())) {
    return absl::PermissionDeniedError(absl::StrCat("hello.session_token: is not the token that ",
                                                    hello.worker_id(), " was given"));
  }
  for (size_t rank = 0; rank < worker.ranks.size(); ++rank) {
    if (worker.ranks[rank].fetched) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        hello.worker_id(), worker.ranks.size() == 1 ? "" : absl::StrCat("'s rank ", rank),
        " has not fetched the pool's descriptors; send its export token to ",
        options_.export_socket, " first"));
  }
  if (awaited_ != nullptr) {
    return absl::FailedPreconditionError("the pool's memory is not complete");
  }
  worker.session_began = true;
  worker.cancel = std::move(cancel);
  log::Info("session began", {{"worker", hello.worker_id()}, {"pid", worker.pid()}});
  Record({.kind = EventKind::kSessionBegan,
          .worker = id,
          .worker_name = worker.name,
          .pid = worker.pid()});
  return BegunSession{*id, pool_.current()};
}

std::vector<WorkerReport> WorkerRegistry::Workers() const {
  std::vector<WorkerReport> reports;
  absl::MutexLock lock(&mu_);
  const SteadyTime now = options_.clock->Now();
  for (const auto& [id, worker] : workers_) {
    WorkerReport& report = reports.emplace_back();
    report.id = id;
    report.name = worker.name;
    report.ranks = worker.ranks;
    for (RankProcess& rank : report.ranks) rank.export_token.clear();
    report.fenced = worker.fenced;
    report.draining = drains_->ordered(id);
    if (!worker.fenced) continue;
    report.why_fenced = worker.why_fenced;
    report.fenced_for = now - worker.fenced_at;
    report.silent_for = now - worker.silent_since;
    report.blocked = Current().PagesBlockedBy(id);
    report.kill_tried = worker.kill_tried;
    report.kill_error = worker.kill_error;
    const bool kills = options_.kill_fenced_after > absl::ZeroDuration() && !worker.kill_tried;
    if (!kills || worker.gone() || report.blocked == PageCount(0)) continue;
    report.kill_in = std::max(options_.kill_fenced_after - report.fenced_for, absl::ZeroDuration());
  }
  return reports;
}

uint32_t WorkerRegistry::RunningSequences(std::optional<WorkerId> worker) const {
  const std::shared_ptr<const Pool> pool = pool_.current();
  if (pool == nullptr) return 0;
  const cache::PoolInfo info = cache::Inspector(pool->coordinator()).pool();
  if (!worker.has_value()) return info.sequences - info.orphans();
  const auto it = std::find_if(info.workers.begin(), info.workers.end(),
                               [&](const cache::WorkerInfo& one) { return one.id == *worker; });
  return it == info.workers.end() ? 0 : it->sequences;
}

}  // namespace folio::manager
