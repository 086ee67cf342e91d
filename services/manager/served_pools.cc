#include "services/manager/served_pools.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "services/base/protocol.h"
#include "services/manager/pool_share.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"

namespace folio::manager {

std::string ServedPools::Names() const {
  return absl::StrJoin(pools_, ", ", [](std::string* out, const auto& served) {
    absl::StrAppend(out, served->name());
  });
}

absl::StatusOr<std::vector<ServedPool*>> ServedPools::Named(const std::string& name) const {
  std::vector<ServedPool*> named;
  for (const auto& served : pools_) {
    if (name.empty() || served->name() == name) named.push_back(served.get());
  }
  if (!named.empty()) return named;
  return absl::NotFoundError(absl::StrCat("pool: there is no pool \"",
                                          absl::Utf8SafeCEscape(name.substr(0, kMaxPoolNameBytes)),
                                          "\"; this manager has ", Names()));
}

std::map<std::string, uint64_t> ServedPools::Beside(const std::string& name) const {
  std::map<std::string, uint64_t> taken;
  for (const auto& served : pools_) {
    if (served->name() == name) continue;
    const std::shared_ptr<const Pool> pool = served->registry().pool();
    if (pool == nullptr) continue;
    for (const auto& [device, bytes] : TakenBy(pool->memory())) taken[device] += bytes;
  }
  return taken;
}

absl::StatusOr<ServedPool*> ServedPools::Joined(const v1::AttachRequest& request) const {
  if (request.pool().empty() && pools_.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pool: must be set, as this manager has several; start the worker with --pool, one of ",
        Names()));
  }
  const auto named = Named(request.pool());
  if (!named.ok()) return named.status();
  return named->front();
}

absl::StatusOr<v1::AttachResponse> ServedPools::Attach(const v1::AttachRequest& request,
                                                       const std::string& peer) {
  const auto home = Joined(request);
  if (!home.ok()) {
    const absl::Status& why = home.status();
    const std::string worker = request.worker_name().substr(0, kMaxLabelBytes);
    log::Warning("attach refused", {{"name", worker}, {"peer", peer}, {"reason", why}});
    events_.Append({.kind = EventKind::kAttachRefused,
                    .worker_name = worker,
                    .code = why.code(),
                    .text = std::string(why.message())});
    return why;
  }
  auto response = (*home)->registry().Attach(request, peer);
  const std::string& name = (*home)->name();
  if (!response.ok()) {
    if (pools_.size() == 1) return response;
    return absl::Status(response.status().code(),
                        absl::StrCat("pool ", name, " (", (*home)->part() * 100,
                                     "% of the memory): ", response.status().message()));
  }
  response->set_pool_name(name);
  if (pools_.size() > 1) {
    log::Info("worker joins a pool", {{"worker", response->worker_id()}, {"pool", name}});
  }
  return response;
}

absl::StatusOr<ExportGrant> ServedPools::RedeemExportToken(absl::string_view token,
                                                           ExportPeer peer) {
  absl::StatusOr<ExportGrant> grant;
  for (const auto& served : pools_) {
    // The peer stays as it is where the token is unknown.
    // NOLINTNEXTLINE(bugprone-use-after-move)
    grant = served->registry().RedeemExportToken(token, std::move(peer));
    if (!absl::IsNotFound(grant.status())) break;
  }
  return grant;
}

absl::StatusOr<PoolSession> ServedPools::BeginSession(const v1::SessionHello& hello,
                                                      const std::function<void()>& cancel) {
  absl::Status unknown;
  for (const auto& served : pools_) {
    auto begun = served->registry().BeginSession(hello, cancel);
    if (begun.ok()) return PoolSession{served.get(), *std::move(begun)};
    unknown = begun.status();
    if (!absl::IsNotFound(unknown)) break;
  }
  return unknown;
}

absl::StatusOr<PoolWorker> ServedPools::FindWorker(const std::string& worker_id) const {
  const std::optional<WorkerId> id = ParseWorkerName(worker_id);
  for (const auto& served : pools_) {
    for (WorkerReport& report : served->registry().Workers()) {
      if (id.has_value() && report.id == *id) return PoolWorker{served.get(), std::move(report)};
    }
  }
  return absl::NotFoundError(
      absl::StrCat("worker_id: there is no worker \"", worker_id, "\"; ListWorkers has them"));
}

uint32_t ServedPools::RunningSequences() const {
  uint32_t running = 0;
  for (const auto& served : pools_) running += served->registry().RunningSequences();
  return running;
}

uint32_t ServedPools::SequencesToAwait() const {
  uint32_t left = 0;
  for (const auto& served : pools_) left += served->SequencesToAwait();
  return left;
}

std::vector<ManagerJournal*> ServedPools::journals() const {
  std::vector<ManagerJournal*> journals;
  for (const auto& served : pools_) {
    if (served->journal_ != nullptr) journals.push_back(served->journal_.get());
  }
  return journals;
}

cache::QuotasByTenant ServedPools::QuotasBefore() const {
  cache::QuotasByTenant quotas;
  for (const auto& served : pools_) {
    for (const auto& [tenant, quota] : served->quotas_before_) quotas[tenant] = quota;
  }
  return quotas;
}

}  // namespace folio::manager
