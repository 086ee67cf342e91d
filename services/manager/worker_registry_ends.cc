// How a worker ends: its lease, its sequences, its pages and its processes.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/secrets_match.h"
#include "services/cache/inspector.h"
#include "services/manager/loss_log.h"
#include "services/manager/worker_name.h"
#include "services/manager/worker_registry.h"
#include "services/runtime/logging.h"

namespace folio::manager {
namespace {

constexpr absl::string_view kLeaseRanOut = "lease ran out";

uint32_t OrphansOf(WorkerId worker, const cache::Coordinator& coordinator) {
  const auto sequences = cache::Inspector(coordinator).sequences();
  return static_cast<uint32_t>(
      std::count_if(sequences.begin(), sequences.end(), [&](const cache::SequenceInfo& one) {
        return one.worker == worker && one.state == cache::SequenceState::kOrphaned;
      }));
}

}  // namespace

void WorkerRegistry::EndSession(WorkerId id) {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(id);
  if (it == workers_.end()) return;
  it->second.cancel = nullptr;
  Fence(id, it->second, "session ended");
  // The next manager gets the memory from a worker that it knows, also from one without sequences.
  if (!drains_->ending()) Sweep();
}

void WorkerRegistry::Fence(WorkerId id, AttachedWorker& worker, absl::string_view why) {
  if (worker.fenced) return;
  cache::Coordinator& coordinator = Current();
  const cache::PoolInfo before = cache::Inspector(coordinator).pool();
  coordinator.FenceWorker(id, /*quiesced=*/false);
  NoteFenced(id, worker, why);
  LogLeft(coordinator, before, options_.rules.orphan_ttl, options_.event_log);
}

void WorkerRegistry::NoteFenced(WorkerId id, AttachedWorker& worker, absl::string_view why) {
  worker.fenced = true;
  worker.why_fenced = why;
  worker.fenced_at = options_.clock->Now();
  worker.silent_since = worker.fenced_at;
  if (why == kLeaseRanOut) worker.silent_since = worker.fenced_at - options_.rules.lease_ttl;
  log::Info(
      "worker fenced",
      {{"worker", WorkerName(id)}, {"name", worker.name}, {"pid", worker.pid()}, {"why", why}});
  if (options_.events != nullptr) options_.events->OnFenced(why);
  Record({.kind = EventKind::kWorkerFenced,
          .worker = id,
          .worker_name = worker.name,
          .pid = worker.pid(),
          .pages = Current().PagesBlockedBy(id),
          .text = std::string(why)});
  const uint32_t orphans = OrphansOf(id, Current());
  if (orphans == 0) return;
  Record({.kind = EventKind::kSequencesOrphaned, .worker = id, .sequences = orphans});
}

void WorkerRegistry::EndOrphans() {
  cache::Coordinator& coordinator = Current();
  const cache::PoolInfo before = cache::Inspector(coordinator).pool();
  const std::vector<SequenceId> ended = coordinator.EndExpiredOrphans();
  for (const SequenceId id : ended) {
    constexpr const char* kWhy = "no worker claimed it in time";
    log::Info("orphan ended", {{"sequence", id}, {"why", kWhy}});
    Record({.kind = EventKind::kOrphanEnded, .sequence = id, .text = kWhy});
  }
  if (ended.empty()) return;
  LogLeft(coordinator, before, options_.rules.orphan_ttl, options_.event_log);
}

PageCount WorkerRegistry::ProveGone(WorkerId id) {
  cache::Coordinator& coordinator = Current();
  const PageCount blocked = coordinator.PagesBlockedBy(id);
  const PageCount before = cache::Inspector(coordinator).pool().quarantined;
  coordinator.ConfirmExited(id);
  const PageCount after = cache::Inspector(coordinator).pool().quarantined;
  // Meanwhile a session may have put another worker's orphans into quarantine.
  const PageCount freed = before > after ? before - after : PageCount(0);
  watch_.Unwatch(id);
  pool_.NoteUnmapped(id);
  Forget(id, blocked, freed);
  return freed;
}

void WorkerRegistry::Forget(WorkerId id, PageCount blocked, PageCount freed) {
  const auto it = workers_.find(id);
  Record({.kind = EventKind::kWorkerGone,
          .worker = id,
          .worker_name = it->second.name,
          .pages = blocked,
          .freed_pages = freed});
  workers_.erase(it);
  drains_->Forget(id);
  if (options_.journal != nullptr) options_.journal->OnWorkerGone(id);
}

absl::StatusOr<PageCount> WorkerRegistry::ReleaseQuarantine(WorkerId id) {
  absl::MutexLock lock(&mu_);
  const auto it = workers_.find(id);
  if (it == workers_.end()) {
    return absl::NotFoundError(absl::StrCat("worker_id: there is no worker ", WorkerName(id)));
  }
  AttachedWorker& worker = it->second;
  if (!worker.fenced) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker_id: ", WorkerName(id), " is not fenced; only a fenced worker blocks pages"));
  }
  for (uint32_t rank = 0; rank < worker.ranks.size(); ++rank) {
    if (!watch_.SeesRunning({id, Rank(rank)})) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "worker_id: process ", worker.ranks[rank].pid, " of ", WorkerName(id),
        " still runs, as the manager sees; end it, and its pages come back without this call"));
  }
  if (worker.cancel) worker.cancel();
  return ProveGone(id);
}

void WorkerRegistry::EndPrevious(const v1::PreviousSession& previous) {
  const std::optional<WorkerId> id = ParseWorkerName(previous.worker_id());
  const auto it = id.has_value() ? workers_.find(*id) : workers_.end();
  if (it == workers_.end()) {
    log::Info("a previous session is unknown", {{"worker", previous.worker_id()}});
    return;
  }
  AttachedWorker& worker = it->second;
  if (!SecretsMatch(worker.session_token, previous.session_token())) {
    log::Warning("a previous session has another token", {{"worker", previous.worker_id()}});
    return;
  }
  Fence(*id, worker, "attached again");
  if (worker.cancel) worker.cancel();
  const std::string name = worker.name;
  const PageCount returned = ProveGone(*id);
  log::Info("worker attaches again",
            {{"previous", WorkerName(*id)}, {"name", name}, {"pages_returned", returned}});
}

void WorkerRegistry::ExpireLeases() {
  absl::MutexLock lock(&mu_);
  if (options_.journal != nullptr) KeepRecord();
  if (pool_.current() == nullptr) return;
  EndOrphans();
  FenceExpired();
  if (options_.kill_fenced_after > absl::ZeroDuration()) KillOverdue();
  if (options_.journal != nullptr) options_.journal->files().Flush();
}

void WorkerRegistry::FenceExpired() {
  cache::Coordinator& coordinator = Current();
  const cache::PoolInfo before = cache::Inspector(coordinator).pool();
  const std::vector<WorkerId> expired = coordinator.FenceExpired();
  if (expired.empty()) return;
  for (const WorkerId id : expired) {
    const auto it = workers_.find(id);
    if (it == workers_.end()) continue;
    NoteFenced(id, it->second, kLeaseRanOut);
    if (it->second.cancel) it->second.cancel();
    // It never had the descriptors, so it never had pages.
    if (it->second.gone()) coordinator.ConfirmExited(id);
  }
  LogLeft(coordinator, before, options_.rules.orphan_ttl, options_.event_log);
  Sweep();
}

void WorkerRegistry::KillOverdue() {
  const SteadyTime now = options_.clock->Now();
  for (auto& [id, worker] : workers_) {
    if (!worker.fenced || worker.kill_tried) continue;
    if (now - worker.fenced_at < options_.kill_fenced_after) continue;
    // A process that blocks no page may have ended its session in order.
    if (worker.gone() || Current().PagesBlockedBy(id) == PageCount(0)) continue;
    worker.kill_tried = true;
    KillProcesses(id, worker, absl::Trunc(now - worker.silent_since, absl::Milliseconds(1)));
  }
}

void WorkerRegistry::KillProcesses(WorkerId id, AttachedWorker& worker, absl::Duration silent) {
  for (uint32_t rank = 0; rank < worker.ranks.size(); ++rank) {
    const RankProcess& process = worker.ranks[rank];
    if (!process.fetched || process.ended) continue;
    const absl::Status killed = watch_.Kill({id, Rank(rank)});
    if (absl::IsNotFound(killed)) continue;  // its end is about to be reported
    Event event = {
        .worker = id, .worker_name = worker.name, .rank = Rank(rank), .pid = process.pid};
    if (killed.ok()) {
      log::Warning("killed a process of a fenced worker", {{"worker", WorkerName(id)},
                                                           {"name", worker.name},
                                                           {"rank", rank},
                                                           {"pid", process.pid},
                                                           {"fenced", worker.why_fenced},
                                                           {"silent_for", silent}});
      if (options_.events != nullptr) options_.events->OnKilled();
      event.kind = EventKind::kProcessKilled;
      event.text = std::string(worker.why_fenced);
      Record(std::move(event));
      continue;
    }
    log::Warning("cannot kill a process of a fenced worker, whose pages wait for its end",
                 {{"worker", WorkerName(id)},
                  {"name", worker.name},
                  {"rank", rank},
                  {"pid", process.pid},
                  {"silent_for", silent},
                  {"reason", killed},
                  {"fix", "end the process, or restart its container"}});
    worker.kill_error = killed;
    event.kind = EventKind::kKillFailed;
    event.code = killed.code();
    event.text = std::string(killed.message());
    Record(std::move(event));
  }
}

void WorkerRegistry::ProcessEnded(WorkerProcess process) {
  absl::MutexLock lock(&mu_);
  pool_.NoteUnmapped(process);
  const auto it = workers_.find(process.worker);
  if (it == workers_.end()) return;
  AttachedWorker& worker = it->second;
  RankProcess& rank = worker.ranks[process.rank.value()];
  Fence(process.worker, worker, "process ended");
  rank.ended = true;
  if (worker.cancel) worker.cancel();
  const std::string name = worker.name;
  const pid_t pid = rank.pid;
  Record({.kind = EventKind::kProcessEnded,
          .worker = process.worker,
          .worker_name = name,
          .rank = process.rank,
          .pid = pid});
  // While another rank lives it may still write pages.
  const PageCount returned = worker.gone() ? ProveGone(process.worker) : PageCount(0);
  log::Info("process ended", {{"worker", WorkerName(process.worker)},
                              {"name", name},
                              {"rank", process.rank},
                              {"pid", pid},
                              {"pages_returned", returned}});
}

void WorkerRegistry::Sweep() {
  cache::Coordinator& coordinator = Current();
  for (auto it = workers_.begin(); it != workers_.end();) {
    const WorkerId id = it->first;
    const AttachedWorker& worker = (it++)->second;
    // Workers that end orderly, again and again in one process, must not pile up.
    const bool withholds = !worker.gone() && coordinator.PagesBlockedBy(id).value() != 0;
    if (!worker.fenced || worker.cancel || withholds) continue;
    coordinator.ConfirmExited(id);
    pool_.NoteLeft(id);  // those of its processes that live still map the pool
    Forget(id, PageCount(0), PageCount(0));
  }
}

}  // namespace folio::manager
