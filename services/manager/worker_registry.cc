#include "services/manager/worker_registry.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/base/check.h"
#include "services/base/protocol.h"
#include "services/cache/inspector.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"
#include "services/wire/layout.h"

namespace folio::manager {
namespace {

std::string NewToken() {
  std::array<char, 16> bits;
  FOLIO_CHECK(getrandom(bits.data(), bits.size(), 0) == static_cast<ssize_t>(bits.size()));
  return absl::BytesToHexString(absl::string_view(bits.data(), bits.size()));
}

std::optional<WorkerId> ParseWorkerName(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, "w") || !absl::SimpleAtoi(name, &number)) return std::nullopt;
  return WorkerId(number);
}

}  // namespace

WorkerRegistry::WorkerRegistry(Options options)
    : options_(std::move(options)),
      watch_([this](WorkerProcess process) { ProcessEnded(process); }) {}

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

absl::Status WorkerRegistry::CreateOrCompare(const v1::ModelLayout& layout) {
  if (pool_ != nullptr) return wire::CompareLayouts(pool_->layout(), layout);
  auto pool = Pool::Create(layout, *options_.pages, options_.pool_size, options_.lease_ttl,
                           options_.orphan_ttl, options_.clock, options_.events);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  created_ = pool_.get();
  const PoolExport& memory = pool_->memory();
  log::Info("pool created", {{"model", layout.model()},
                             {"pages", cache::Inspector(pool_->coordinator()).pool().total},
                             {"page_bytes", pool_->page_bytes()},
                             {"ranks", pool_->ranks()},
                             {"pool_bytes", memory.pool_bytes()},
                             {"device", options_.pages->device()},
                             {"score_board_bytes", memory.score_board_bytes()},
                             {"huge_pages", HugePagesName(memory.huge_pages())}});
  return absl::OkStatus();
}

absl::StatusOr<v1::AttachResponse> WorkerRegistry::Attach(const v1::AttachRequest& request) {
  if (draining_) return absl::UnavailableError("the manager is draining; attach to the next one");
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("protocol_version: the manager has ",
                                                      kProtocolVersion, ", the worker ",
                                                      request.protocol_version()));
  }
  if (request.worker_name().size() > kMaxLabelBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker_name: has ", request.worker_name().size(), " bytes; at most ", kMaxLabelBytes));
  }
  if (!request.has_layout()) return absl::InvalidArgumentError("layout: must be set");

  absl::MutexLock lock(&mu_);
  absl::Status status = CheckDevice(request);
  if (status.ok()) status = CreateOrCompare(request.layout());
  if (!status.ok()) {
    log::Warning("attach refused", {{"name", request.worker_name()}, {"reason", status}});
    return status;
  }
  const WorkerId id = pool_->coordinator().AddWorker(request.worker_name());
  Worker& worker = workers_[id];
  worker.name = request.worker_name();
  worker.keeps_connection = request.keeps_export_connection();
  worker.ranks.resize(pool_->ranks());
  for (RankProcess& rank : worker.ranks) rank.export_token = NewToken();
  worker.session_token = NewToken();
  log::Info("worker attached", {{"worker", WorkerName(id)}, {"name", worker.name}});

  v1::AttachResponse response;
  response.set_worker_id(WorkerName(id));
  response.set_export_token(worker.ranks[0].export_token);
  for (size_t rank = 1; rank < worker.ranks.size(); ++rank) {
    response.add_rank_export_tokens(worker.ranks[rank].export_token);
  }
  response.set_session_token(worker.session_token);
  response.set_export_socket(options_.export_socket);
  *response.mutable_pool() = pool_->Describe();
  response.set_lease_ttl_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.lease_ttl)));
  return response;
}

absl::StatusOr<ExportGrant> WorkerRegistry::RedeemExportToken(absl::string_view token,
                                                              ExportPeer peer) {
  absl::MutexLock lock(&mu_);
  for (auto& [id, worker] : workers_) {
    for (uint32_t rank = 0; rank < worker.ranks.size(); ++rank) {
      RankProcess& process = worker.ranks[rank];
      if (token.empty() || process.export_token != token || worker.fenced) continue;
      process.export_token.clear();
      const bool by_pidfd = peer.pidfd.ok();
      if (!by_pidfd && !worker.keeps_connection) return peer.pidfd.status();
      process.fetched = true;
      process.pid = peer.pid;
      watch_.Watch({id, Rank(rank)},
                   {by_pidfd ? *std::move(peer.pidfd) : std::move(peer.connection), by_pidfd});
      log::Info("pool descriptors handed out", {{"worker", WorkerName(id)},
                                                {"rank", rank},
                                                {"pid", peer.pid},
                                                {"watched_by", by_pidfd ? "pidfd" : "connection"}});
      return ExportGrant{pool_.get(), Rank(rank)};
    }
  }
  return absl::PermissionDeniedError(
      "export token: unknown or used; each Attach gives one for each rank, for one use");
}

absl::StatusOr<WorkerId> WorkerRegistry::BeginSession(const v1::SessionHello& hello,
                                                      std::function<void()> cancel) {
  const std::optional<WorkerId> id = ParseWorkerName(hello.worker_id());
  absl::MutexLock lock(&mu_);
  const auto it = id.has_value() ? workers_.find(*id) : workers_.end();
  if (it == workers_.end() || it->second.fenced) {
    return absl::NotFoundError(absl::StrCat("hello.worker_id: \"", hello.worker_id(),
                                            "\" is not attached, or its lease ran out; "
                                            "attach again"));
  }
  Worker& worker = it->second;
  if (worker.session_token.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("hello.session_token: ", hello.worker_id(),
                                                      " has a session already; attach again"));
  }
  if (hello.session_token() != worker.session_token) {
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
  worker.session_token.clear();
  worker.cancel = std::move(cancel);
  log::Info("session began", {{"worker", hello.worker_id()}, {"pid", worker.pid()}});
  return *id;
}

void WorkerRegistry::EndSession(WorkerId id) {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(id);
  if (it == workers_.end()) return;
  it->second.cancel = nullptr;
  Fence(id, it->second, "session ended");
  Sweep();
}

void WorkerRegistry::Fence(WorkerId id, Worker& worker, absl::string_view why) {
  if (worker.fenced) return;
  cache::Coordinator& coordinator = pool_->coordinator();
  const cache::PoolInfo before = cache::Inspector(coordinator).pool();
  coordinator.FenceWorker(id, /*quiesced=*/false);
  worker.fenced = true;
  ReportFenced(id, worker, why);
  LogLeft(before);
}

void WorkerRegistry::ReportFenced(WorkerId id, const Worker& worker, absl::string_view why) {
  log::Info(
      "worker fenced",
      {{"worker", WorkerName(id)}, {"name", worker.name}, {"pid", worker.pid()}, {"why", why}});
  if (options_.events != nullptr) options_.events->OnFenced(why);
}

void WorkerRegistry::LogLeft(const cache::PoolInfo& before) {
  const cache::PoolInfo now = cache::Inspector(pool_->coordinator()).pool();
  if (now.orphans() > before.orphans()) {
    log::Warning("sequences orphaned", {{"sequences", now.orphans() - before.orphans()},
                                        {"orphans", now.orphans()},
                                        {"orphan_ttl", options_.orphan_ttl}});
  }
  // A worker that closed its sequences leaves no pages behind.
  if (now.quarantined == before.quarantined) return;
  log::Warning("pages quarantined until the process ends",
               {{"pages", now.quarantined.value() - before.quarantined.value()},
                {"quarantined", now.quarantined}});
}

void WorkerRegistry::EndOrphans() {
  for (const SequenceId id : pool_->coordinator().EndExpiredOrphans()) {
    log::Info("orphan ended", {{"sequence", id}, {"why", "no worker claimed it in time"}});
  }
}

void WorkerRegistry::ExpireLeases() {
  absl::MutexLock lock(&mu_);
  if (pool_ == nullptr) return;
  EndOrphans();
  cache::Coordinator& coordinator = pool_->coordinator();
  const cache::PoolInfo before = cache::Inspector(coordinator).pool();
  const std::vector<WorkerId> expired = coordinator.FenceExpired();
  if (expired.empty()) return;
  for (const WorkerId id : expired) {
    const auto it = workers_.find(id);
    if (it == workers_.end()) continue;
    ReportFenced(id, it->second, "lease ran out");
    it->second.fenced = true;
    if (it->second.cancel) it->second.cancel();
    // It never had the descriptors, so it never had pages.
    if (it->second.gone()) coordinator.ConfirmExited(id);
  }
  LogLeft(before);
  Sweep();
}

void WorkerRegistry::ProcessEnded(WorkerProcess process) {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(process.worker);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  Fence(process.worker, worker, "process ended");
  worker.ranks[process.rank.value()].ended = true;
  cache::Coordinator& coordinator = pool_->coordinator();
  const uint32_t before = cache::Inspector(coordinator).pool().quarantined.value();
  // While another rank lives it may still write pages.
  const bool gone = worker.gone();
  if (gone) coordinator.ConfirmExited(process.worker);
  log::Info("process ended", {{"worker", WorkerName(process.worker)},
                              {"name", worker.name},
                              {"rank", process.rank.value()},
                              {"pid", worker.ranks[process.rank.value()].pid},
                              {"pages_returned",
                               before - cache::Inspector(coordinator).pool().quarantined.value()}});
  if (worker.cancel) worker.cancel();
  if (gone) workers_.erase(it);
}

void WorkerRegistry::Sweep() {
  cache::Coordinator& coordinator = pool_->coordinator();
  for (auto it = workers_.begin(); it != workers_.end();) {
    const WorkerId id = it->first;
    const Worker& worker = it->second;
    // Workers that end orderly, again and again in one process, must not pile up.
    const bool withholds = !worker.gone() && coordinator.PagesBlockedBy(id).value() != 0;
    if (!worker.fenced || worker.cancel || withholds) {
      ++it;
      continue;
    }
    coordinator.ConfirmExited(id);
    watch_.Unwatch(id);
    it = workers_.erase(it);
  }
}

absl::Status WorkerRegistry::MayOpen() const {
  if (!draining_) return absl::OkStatus();
  return absl::UnavailableError("the manager is draining and takes on no more sequences");
}

pid_t WorkerRegistry::ProcessOf(WorkerId worker) const {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : it->second.pid();
}

uint32_t WorkerRegistry::RunningSequences() const {
  const Pool* pool = created_;
  if (pool == nullptr) return 0;
  const cache::PoolInfo info = cache::Inspector(pool->coordinator()).pool();
  return info.sequences - info.orphans();
}

}  // namespace folio::manager
