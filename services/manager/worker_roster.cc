#include "services/manager/worker_roster.h"

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
#include "services/common/check.h"
#include "services/common/logging.h"
#include "services/common/protocol.h"
#include "services/manager/convert.h"

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

WorkerRoster::WorkerRoster(Options options)
    : options_(std::move(options)),
      watch_([this](WorkerProcess process) { ProcessEnded(process); }) {}

absl::Status WorkerRoster::CheckDevice(const v1::AttachRequest& request) const {
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

absl::Status WorkerRoster::CarveOrCompare(const v1::ModelLayout& layout) {
  if (pool_ != nullptr) return CompareLayouts(pool_->layout(), layout);
  auto pool = Pool::Carve(layout, *options_.pages, options_.pool_size, options_.lease_ttl,
                          options_.orphan_ttl, options_.clock);
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  carved_ = pool_.get();
  const PoolExport& memory = pool_->memory();
  log::Info("pool carved", {{"model", layout.model()},
                            {"pages", pool_->coordinator().pool().total},
                            {"page_bytes", pool_->page_bytes()},
                            {"ranks", pool_->ranks()},
                            {"pool_bytes", memory.pool_bytes()},
                            {"device", options_.pages->device()},
                            {"score_board_bytes", memory.score_board_bytes()},
                            {"huge_pages", HugePagesName(memory.huge_pages())}});
  return absl::OkStatus();
}

absl::StatusOr<v1::AttachResponse> WorkerRoster::Attach(const v1::AttachRequest& request) {
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
  if (status.ok()) status = CarveOrCompare(request.layout());
  if (!status.ok()) {
    log::Warning("attach refused", {{"name", request.worker_name()}, {"reason", status}});
    return status;
  }
  const WorkerId id = pool_->coordinator().AddWorker(request.worker_name());
  Worker& worker = workers_[id];
  worker.name = request.worker_name();
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
  const PoolExport& memory = pool_->memory();
  v1::PoolLayout* layout = response.mutable_pool();
  layout->set_num_pages(pool_->coordinator().pool().total.value());
  layout->set_page_bytes(pool_->page_bytes());
  layout->set_pool_bytes(memory.pool_bytes());
  layout->set_score_board_bytes(memory.score_board_bytes());
  for (uint32_t rank = 0; rank < memory.ranks(); ++rank) {
    const PagePlace& place = memory.place(Rank(rank));
    v1::PageMemory* told = layout->add_rank_memory();
    told->set_device_uuid(place.device_uuid);
    told->set_bytes(place.bytes);
  }
  response.set_lease_ttl_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.lease_ttl)));
  return response;
}

absl::StatusOr<ExportGrant> WorkerRoster::RedeemExportToken(absl::string_view token, pid_t pid,
                                                            UniqueFd pidfd) {
  absl::MutexLock lock(&mu_);
  for (auto& [id, worker] : workers_) {
    for (uint32_t rank = 0; rank < worker.ranks.size(); ++rank) {
      RankProcess& process = worker.ranks[rank];
      if (token.empty() || process.export_token != token || worker.fenced) continue;
      process.export_token.clear();
      process.pid = pid;
      watch_.Watch({id, Rank(rank)}, std::move(pidfd));
      log::Info("pool descriptors handed out",
                {{"worker", WorkerName(id)}, {"rank", rank}, {"pid", pid}});
      return ExportGrant{pool_.get(), Rank(rank)};
    }
  }
  return absl::PermissionDeniedError(
      "export token: unknown or used; each Attach gives one for each rank, for one use");
}

absl::StatusOr<WorkerId> WorkerRoster::BeginSession(const v1::SessionHello& hello,
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
    return absl::PermissionDeniedError(
        absl::StrCat("hello.session_token: is not the one that ", hello.worker_id(), " was given"));
  }
  for (size_t rank = 0; rank < worker.ranks.size(); ++rank) {
    if (worker.ranks[rank].pid != 0) continue;
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

void WorkerRoster::EndSession(WorkerId id) {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(id);
  if (it == workers_.end()) return;
  it->second.cancel = nullptr;
  Fence(id, it->second, "session ended");
  Sweep();
}

void WorkerRoster::Fence(WorkerId id, Worker& worker, absl::string_view why) {
  if (worker.fenced) return;
  cache::Coordinator& coordinator = pool_->coordinator();
  const cache::PoolInfo before = coordinator.pool();
  coordinator.FenceWorker(id, /*quiesced=*/false);
  worker.fenced = true;
  LogFenced(id, worker, why);
  LogLeft(before);
}

void WorkerRoster::LogFenced(WorkerId id, const Worker& worker, absl::string_view why) {
  log::Info(
      "worker fenced",
      {{"worker", WorkerName(id)}, {"name", worker.name}, {"pid", worker.pid()}, {"why", why}});
}

void WorkerRoster::LogLeft(const cache::PoolInfo& before) {
  const cache::PoolInfo now = pool_->coordinator().pool();
  if (now.orphans > before.orphans) {
    log::Warning("sequences orphaned", {{"sequences", now.orphans - before.orphans},
                                        {"orphans", now.orphans},
                                        {"orphan_ttl", options_.orphan_ttl}});
  }
  // With nothing left behind it was a goodbye.
  if (now.quarantined == before.quarantined) return;
  log::Warning("pages quarantined until the process ends",
               {{"pages", now.quarantined.value() - before.quarantined.value()},
                {"quarantined", now.quarantined}});
}

void WorkerRoster::EndOrphans() {
  for (const SequenceId id : pool_->coordinator().EndExpiredOrphans()) {
    log::Info("orphan ended", {{"sequence", id}, {"why", "nobody claimed it in time"}});
  }
}

void WorkerRoster::ExpireLeases() {
  absl::MutexLock lock(&mu_);
  if (pool_ == nullptr) return;
  EndOrphans();
  cache::Coordinator& coordinator = pool_->coordinator();
  const cache::PoolInfo before = coordinator.pool();
  const std::vector<WorkerId> expired = coordinator.FenceExpired();
  if (expired.empty()) return;
  for (const WorkerId id : expired) {
    const auto it = workers_.find(id);
    if (it == workers_.end()) continue;
    LogFenced(id, it->second, "lease ran out");
    it->second.fenced = true;
    if (it->second.cancel) it->second.cancel();
    // It never had the descriptors, so it never had pages.
    if (it->second.gone()) coordinator.ProveGone(id);
  }
  LogLeft(before);
  Sweep();
}

void WorkerRoster::ProcessEnded(WorkerProcess process) {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(process.worker);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  Fence(process.worker, worker, "process ended");
  worker.ranks[process.rank.value()].ended = true;
  cache::Coordinator& coordinator = pool_->coordinator();
  const uint32_t before = coordinator.pool().quarantined.value();
  // Its other ranks may still write pages.
  const bool gone = worker.gone();
  if (gone) coordinator.ProveGone(process.worker);
  log::Info("process ended", {{"worker", WorkerName(process.worker)},
                              {"name", worker.name},
                              {"rank", process.rank.value()},
                              {"pid", worker.ranks[process.rank.value()].pid},
                              {"pages_returned", before - coordinator.pool().quarantined.value()}});
  if (worker.cancel) worker.cancel();
  if (gone) workers_.erase(it);
}

void WorkerRoster::Sweep() {
  cache::Coordinator& coordinator = pool_->coordinator();
  for (auto it = workers_.begin(); it != workers_.end();) {
    const WorkerId id = it->first;
    const Worker& worker = it->second;
    // Workers that end orderly, again and again in one process, must not pile up.
    const bool withholds = !worker.gone() && coordinator.WithheldFor(id).value() != 0;
    if (!worker.fenced || worker.cancel || withholds) {
      ++it;
      continue;
    }
    coordinator.ProveGone(id);
    watch_.Unwatch(id);
    it = workers_.erase(it);
  }
}

absl::Status WorkerRoster::MayOpen() const {
  if (!draining_) return absl::OkStatus();
  return absl::UnavailableError("the manager is draining and takes on no more sequences");
}

pid_t WorkerRoster::ProcessOf(WorkerId worker) const {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(worker);
  return it == workers_.end() ? 0 : it->second.pid();
}

uint32_t WorkerRoster::RunningSequences() const {
  const Pool* pool = carved_;
  if (pool == nullptr) return 0;
  const cache::PoolInfo info = pool->coordinator().pool();
  return info.sequences - info.orphans;
}

}  // namespace folio::manager
