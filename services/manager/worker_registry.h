// WorkerRegistry knows each attached worker: its tokens, processes and session, from Attach until
// its pages have come back.
//
//   Attach ─▶ export token redeemed (pidfd watched) ─▶ session begins ─▶ session ends, the lease
//   runs out or the process ends: the worker is fenced, its sequences are orphaned, and the pages
//   of sequences that cannot be resumed are quarantined ─▶ process ended, or attached again with
//   this session as its previous one: quarantined pages are free, orphans may be claimed, and the
//   worker is forgotten
//
// A worker of several tensor-parallel ranks has a process and an export token for each rank. The
// first process that ends fences the worker, and the last one frees its pages, because until then
// one of them could still write.
//
// With a journal, the next manager continues: worker_registry_restart.cc says how.
//
// The first Attach makes the pool. A later one with another layout gets a pool of its own if the
// current one is unused (see NodePool). A worker that fetched no descriptors leaves it unused.
#ifndef FOLIO_SERVICES_MANAGER_WORKER_REGISTRY_H_
#define FOLIO_SERVICES_MANAGER_WORKER_REGISTRY_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/manager/attached_worker.h"
#include "services/manager/drains.h"
#include "services/manager/grants.h"
#include "services/manager/node_pool.h"
#include "services/manager/process_watch.h"
#include "services/manager/registry_options.h"

namespace folio::manager {

// Thread-safe. Its lock is taken before the coordinator's and never inside it. A step of a session
// does not take it.
class WorkerRegistry {
 public:
  using Options = RegistryOptions;
  explicit WorkerRegistry(Options options);

  // UNAVAILABLE while the manager ends. In any other case the pages of a previous session return,
  // unless it is unknown or has another token. FAILED_PRECONDITION names each layout field that
  // differs with both values if a worker of the pool's layout is attached, or says that the worker
  // computes where the pages are not. UNAVAILABLE as NodePool::CheckUnused. A call that makes a
  // pool also has the errors of Pool::Create. The log names `peer`, the caller's address.
  absl::StatusOr<v1::AttachResponse> Attach(const v1::AttachRequest& request,
                                            const std::string& peer = "");

  // Uses up an export token for the peer. NOT_FOUND if the token is wrong or used, or if its worker
  // has been fenced, and the peer then stays as it is. The error of `peer.pidfd` if there is one
  // and the worker has not promised to keep its connection; the token is then used up as well.
  absl::StatusOr<ExportGrant> RedeemExportToken(absl::string_view token, ExportPeer&& peer);

  // Uses up the session token. `cancel` ends the stream from another thread and is not called after
  // EndSession returns. FAILED_PRECONDITION if a rank has not fetched its descriptors.
  absl::StatusOr<BegunSession> BeginSession(const v1::SessionHello& hello,
                                            std::function<void()> cancel);
  // Fences the worker. Its pages come back once its processes have ended.
  void EndSession(WorkerId worker);

  // Fences workers whose lease has run out and ends their sessions. Ends orphans that no worker has
  // claimed in time. Kills processes of fenced workers that have blocked pages for too long.
  void ExpireLeases();

  // Gives the pages of a fenced worker back, on an operator's word that its processes have ended,
  // and returns how many left the quarantine. NOT_FOUND: there is no such worker.
  // FAILED_PRECONDITION: it is not fenced, or the manager sees that a process of it runs.
  absl::StatusOr<PageCount> ReleaseQuarantine(WorkerId worker);

  // The drains. While the manager ends, Attach refuses too.
  Drains& drains() const { return *drains_; }

  // Null until the first Attach. A pool that another one has replaced has no workers.
  std::shared_ptr<const Pool> pool() const { return pool_.current(); }
  const PageSource& pages() const { return *options_.pages; }
  std::vector<WorkerReport> Workers() const;
  // Those of all workers, or of one. Does not count orphans.
  uint32_t RunningSequences(std::optional<WorkerId> worker = std::nullopt) const;

 private:
  // Takes over from the manager before, whose workers are fenced ones of this one.
  void Restore(Recovered recovered);
  void Restore(const folio::state::v1::JournalWorker& saved) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Until the pool's memory is back only the workers that hold it may attach, else UNAVAILABLE.
  absl::Status CheckAwaited(const v1::AttachRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Bring(Rank rank, std::vector<UniqueFd> brought) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReplaceMemory(absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepRecord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SaveWorker(WorkerId id, const AttachedWorker& worker) const;
  absl::Status CheckDevice(const v1::AttachRequest& request) const;
  absl::Status MakePool(const v1::ModelLayout& layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeOrCompare(const v1::ModelLayout& layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckReplaceable(const absl::Status& differs) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Precondition: no worker has fetched descriptors.
  void ForgetAttachments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  cache::Coordinator& Current() const { return pool_.current()->coordinator(); }  // needs a pool
  void Fence(WorkerId id, AttachedWorker& worker, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Record(Event event) const { options_.event_log.Append(std::move(event)); }
  // Notes that the coordinator has fenced the worker.
  void NoteFenced(WorkerId id, AttachedWorker& worker, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndOrphans() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FenceExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KillOverdue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KillProcesses(WorkerId id, AttachedWorker& worker, absl::Duration silent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A worker that attaches again has unmapped the pages of this session in all its processes.
  void EndPrevious(const v1::PreviousSession& previous) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nothing can write the pages of this fenced worker any more. Forgets it, and returns how many
  // pages left the quarantine.
  PageCount ProveGone(WorkerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `blocked` pages were out of use because of it, and so many of them became free.
  void Forget(WorkerId id, PageCount blocked, PageCount freed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets fenced workers that hold nothing back.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Fences the worker. When its last process has ended, its pages are free.
  void ProcessEnded(WorkerProcess process);

  const Options options_;
  const std::shared_ptr<Drains> drains_;
  NodePool pool_;
  mutable absl::Mutex mu_;
  std::map<WorkerId, AttachedWorker> workers_ ABSL_GUARDED_BY(mu_);
  // The pool whose memory workers of the manager before are to bring, and since when. Null if the
  // memory is there.
  std::shared_ptr<Pool> awaited_ ABSL_GUARDED_BY(mu_);
  SteadyTime awaited_since_ ABSL_GUARDED_BY(mu_);
  ProcessWatch watch_;  // calls ProcessEnded, so it is destroyed first
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_WORKER_REGISTRY_H_
