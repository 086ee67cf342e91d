// How a manager continues where another one was killed or ended.
//
// The journal has the record. The memory of pages, scores and swap lives on in the descriptors that
// workers keep, because they outlive the manager on any device and need nothing of the service
// manager. A worker that loses its manager unmaps the pages, attaches to the next one with its last
// session, which proves that it writes no more, and brings the descriptors back. Its sequences are
// orphans until a client asks for them, with what their pages hold.
//
// The memory is awaited for a lease, or until every worker that could have it has ended. Then other
// memory takes its place, and every sequence is computed again from its tokens.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/restoration.h"
#include "services/manager/awaited_memory.h"
#include "services/manager/worker_name.h"
#include "services/manager/worker_registry.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/logging.h"

namespace folio::manager {
namespace {

BroughtMemory Named(std::vector<UniqueFd> brought) {
  brought.resize(3);
  return {std::move(brought[0]), std::move(brought[1]), std::move(brought[2])};
}

// The pool keeps its size, because its memory and its sequences have it.
void WarnOfSize(const folio::state::v1::JournalPool& saved, const RegistryOptions& options) {
  const std::string wanted = FormatPoolSize(options.pool_size);
  const uint64_t wanted_swap = options.rules.host_swap_bytes;
  if (saved.pool_bytes() == wanted && saved.host_swap_bytes() == wanted_swap) return;
  log::Warning("the pool keeps the size that it had, whatever the flags say now",
               {{"kept_pool_bytes", saved.pool_bytes()},
                {"pool_bytes", wanted},
                {"kept_host_swap_bytes", FormatByteSize({saved.host_swap_bytes()})},
                {"host_swap_bytes", FormatByteSize({wanted_swap})},
                {"fix",
                 "end the manager, remove the files in its --state_dir and start it again; "
                 "its sequences and the quotas of operators end with that"}});
}

Event RestartEvent(const cache::Restored& restored, size_t workers) {
  const uint32_t sequences = restored.kept + restored.again;
  return {.kind = EventKind::kManagerRestarted,
          .sequences = sequences,
          .text = absl::StrCat(restored.again, " of them are to be computed again, and ",
                               restored.ended, " others ended"),
          .workers = static_cast<uint32_t>(workers)};
}

}  // namespace

void WorkerRegistry::Restore(const folio::state::v1::JournalWorker& saved) {
  const WorkerId id(saved.id());
  AttachedWorker& worker = workers_[id];
  worker.name = saved.name();
  worker.session_token = saved.session_token();
  worker.fenced = true;
  worker.why_fenced = "its manager ended";
  worker.fenced_at = worker.silent_since = options_.clock->Now();
  for (int rank = 0; rank < saved.ranks_size(); ++rank) {
    const auto& process = saved.ranks(rank);
    RankProcess& restored = worker.ranks.emplace_back();
    restored.fetched = process.fetched();
    restored.pid = process.pid();
    restored.started = process.started();
    if (!restored.fetched) continue;
    const WorkerProcess name{id, Rank(static_cast<uint32_t>(rank))};
    auto pidfd = OpenPidfd(restored.pid, restored.started);
    restored.ended = absl::IsNotFound(pidfd.status());
    if (restored.ended) continue;
    (void)pool_.NoteMapped(name, restored.pid);
    // A hidden process is believed to run until its worker attaches again or an operator releases
    // its quarantine.
    if (!pidfd.ok()) continue;
    watch_.Watch(name, {*std::move(pidfd), /*is_pidfd=*/true});
  }
}

void WorkerRegistry::Restore(Recovered recovered) {
  absl::MutexLock lock(&mu_);
  for (const std::string& damage : recovered.damage) {
    log::Error("the journal is damaged, so all sequences are computed again", {{"where", damage}});
  }
  if (!recovered.pool.has_value()) return;
  auto pool = pool_.Expect(*recovered.pool);
  if (!pool.ok()) {
    log::Error("the journal's pool cannot be continued, its sequences are lost",
               {{"reason", pool.status()}, {"sequences", recovered.cache.sequences.size()}});
    Record(RestartEvent({.ended = static_cast<uint32_t>(recovered.cache.sequences.size())}, 0));
    if (options_.restart != nullptr) options_.restart->OnLost(recovered.cache.sequences.size());
    return;
  }
  awaited_ = *std::move(pool);
  awaited_since_ = options_.clock->Now();
  WarnOfSize(*recovered.pool, options_);
  if (options_.journal != nullptr) options_.journal->OnPool(awaited_->Saved());
  const bool same_pids = recovered.pid_namespace == PidNamespace();
  for (auto& saved : recovered.workers) {
    if (static_cast<size_t>(saved.ranks_size()) != awaited_->memory().ranks()) continue;
    for (auto& process : *saved.mutable_ranks()) {
      if (!same_pids) process.set_pid(0);
    }
    Restore(saved);
    const WorkerId id(saved.id());
    const AttachedWorker& worker = workers_.at(id);
    if (worker.gone()) {
      workers_.erase(id);
      continue;
    }
    recovered.cache.workers.push_back({id, worker.name});
    SaveWorker(id, worker);
  }
  const cache::Restored restored =
      cache::Restoration(awaited_->coordinator()).Restore(std::move(recovered.cache));
  log::Info("continues where the manager before it ended",
            {{"managers_before", recovered.manager_boot},
             {"model", awaited_->layout().model()},
             {"workers", workers_.size()},
             {"sequences", restored.kept + restored.again},
             {"to_be_computed_again", restored.again},
             {"ended", restored.ended},
             {"torn_bytes", recovered.torn_bytes}});
  Record(RestartEvent(restored, workers_.size()));
  if (options_.restart != nullptr) options_.restart->OnRestored(this, restored);
  if (!restored.has_contents) ReplaceMemory("nothing of what the pages held can be believed");
  if (awaited_ != nullptr && workers_.empty()) ReplaceMemory("all workers that had it have ended");
}

absl::Status WorkerRegistry::CheckAwaited(const v1::AttachRequest& request) {
  const bool holds = !request.held_pool_id().empty();
  if (awaited_ != nullptr && request.held_pool_id() == awaited_->Saved().pool_id()) {
    return absl::OkStatus();
  }
  // It may hold the memory that a new pool lacks. A worker that is told so lets it go.
  if (holds && (awaited_ != nullptr || pool_.current() == nullptr)) {
    return absl::ResourceExhaustedError(
        "held_pool_id: names a pool whose memory is not wanted any more; attach again without it");
  }
  if (awaited_ != nullptr && workers_.empty()) ReplaceMemory("all workers that had it have ended");
  if (awaited_ == nullptr) return absl::OkStatus();
  if (workers_.empty()) {
    return absl::ResourceExhaustedError("there is no memory for the pool now; try again");
  }
  const auto& [id, worker] = *workers_.begin();
  return absl::UnavailableError(
      absl::StrCat("the manager has begun again and waits for the pool's memory, which worker ",
                   WorkerName(id), " (process ", worker.pid(), ") is to bring back; try again"));
}

absl::Status WorkerRegistry::Bring(Rank rank, std::vector<UniqueFd> brought) {
  if (awaited_ == nullptr) return absl::OkStatus();
  if (brought.size() < 2) {
    return absl::FailedPreconditionError(
        "the pool's descriptors did not come with the export token; attach again");
  }
  AwaitedMemory memory(awaited_->memory());
  absl::Status status = memory.Bring(rank, Named(std::move(brought)));
  if (!status.ok() || !memory.complete()) return status;
  const uint32_t owed = cache::Restoration(awaited_->coordinator()).Decide();
  log::Info("the pool's memory is back",
            {{"after", options_.clock->Now() - awaited_since_}, {"decisions_owed", owed}});
  const auto brought_it = [](const auto& one) { return one.second.brings_pool; };
  const auto workers = std::count_if(workers_.begin(), workers_.end(), brought_it);
  if (options_.restart != nullptr)
    options_.restart->OnMemoryBack(this, static_cast<uint32_t>(workers));
  awaited_.reset();
  return absl::OkStatus();
}

void WorkerRegistry::ReplaceMemory(absl::string_view why) {
  const std::shared_ptr<Pool> pool = std::exchange(awaited_, nullptr);
  // None has a session, and some rank may have the old memory already. They attach again.
  std::vector<WorkerId> lost;
  for (auto& [id, worker] : workers_) {
    Fence(id, worker, "the pool has new memory");
    lost.push_back(id);
  }
  const absl::Status made = pool->ReplaceMemory(*options_.pages);
  if (options_.journal != nullptr) {
    auto saved = pool->Saved();
    saved.set_replaces_memory(true);
    options_.journal->OnPool(saved);
  }
  const uint32_t sequences = cache::Restoration(pool->coordinator()).LoseContents(lost);
  if (options_.restart != nullptr) options_.restart->OnMemoryReplaced(this);
  // Their processes may live on, and have only the old memory mapped.
  for (const WorkerId id : lost) {
    watch_.Unwatch(id);
    pool_.NoteUnmapped(id);
    Forget(id, PageCount(0), PageCount(0));
  }
  if (made.ok()) {
    log::Warning("the pool has new memory",
                 {{"why", why}, {"sequences_to_be_computed_again", sequences}});
    return;
  }
  log::Error("there is no memory for the pool, and it is asked for again", {{"reason", made}});
  awaited_ = pool;
  awaited_since_ = options_.clock->Now();
}

void WorkerRegistry::KeepRecord() {
  if (awaited_ != nullptr) {
    const bool late = options_.clock->Now() - awaited_since_ > options_.rules.lease_ttl;
    if (workers_.empty()) {
      ReplaceMemory("all workers that had it have ended");
    } else if (late) {
      ReplaceMemory("no worker has brought it for the time of a lease");
    }
  }
  if (options_.journal->files().wants_new_file()) pool_.TellAll();
}

void WorkerRegistry::SaveWorker(WorkerId id, const AttachedWorker& worker) const {
  if (options_.journal == nullptr) return;
  folio::state::v1::JournalWorker saved;
  saved.set_id(id.value());
  saved.set_name(worker.name);
  saved.set_session_token(worker.session_token);
  for (const RankProcess& rank : worker.ranks) {
    auto* process = saved.add_ranks();
    process->set_fetched(rank.fetched);
    process->set_pid(rank.pid);
    process->set_started(rank.started);
  }
  options_.journal->OnWorker(saved);
}

}  // namespace folio::manager
