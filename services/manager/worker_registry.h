// WorkerRegistry knows each attached worker: its tokens, processes and session, from Attach until
// its pages have come back.
//
//   Attach ─▶ export token redeemed (pidfd watched) ─▶ session begins ─▶ session ends, the lease
//   runs out or the process ends: the worker is fenced, its sequences are orphaned, and the pages
//   of sequences that cannot be resumed are quarantined ─▶ process ended: quarantined pages are
//   free, orphans may be claimed, and the worker is forgotten
//
// A worker of several tensor-parallel ranks has a process and an export token for each rank. The
// first process that ends fences the worker, and the last one frees its pages, because until then
// one of them could still write. The first Attach creates the pool (see Pool).
#ifndef FOLIO_SERVICES_MANAGER_WORKER_REGISTRY_H_
#define FOLIO_SERVICES_MANAGER_WORKER_REGISTRY_H_

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/base/clock.h"
#include "services/base/ids.h"
#include "services/base/unique_fd.h"
#include "services/cache/inspector.h"
#include "services/manager/event_metrics.h"
#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/pool_size.h"
#include "services/manager/pool.h"
#include "services/manager/process_watch.h"

namespace folio::manager {

// ExportGrant is what a worker gets for its export token. The pool lives as long as the registry.
struct ExportGrant {
  const Pool* pool = nullptr;
  Rank rank;
};

// Thread-safe. Its lock is taken before the coordinator's and never inside it. A step of a session
// does not take it.
class WorkerRegistry {
 public:
  struct Options {
    const PageSource* pages = nullptr;  // borrowed
    PoolSize pool_size;
    absl::Duration lease_ttl;
    absl::Duration orphan_ttl = absl::ZeroDuration();  // 0 if sequences end with their worker
    std::string export_socket;                         // where workers fetch descriptors
    const Clock* clock = nullptr;                      // borrowed
    EventMetrics* events = nullptr;                    // borrowed; may be null
  };

  explicit WorkerRegistry(Options options);

  // FAILED_PRECONDITION names each layout field that differs with both values, or says that the
  // worker computes where the pages are not. UNAVAILABLE while draining. The first call also has
  // the errors of Pool::Create.
  absl::StatusOr<v1::AttachResponse> Attach(const v1::AttachRequest& request);

  // Uses up an export token for the peer. PERMISSION_DENIED if the token is wrong or used, or if
  // its worker has been fenced. The error of `peer.pidfd` if there is one and the worker has not
  // promised to keep its connection; the token is then used up as well.
  absl::StatusOr<ExportGrant> RedeemExportToken(absl::string_view token, ExportPeer peer);

  // Uses up the session token. `cancel` ends the stream from another thread and is not called after
  // EndSession returns. FAILED_PRECONDITION if a rank has not fetched its descriptors.
  absl::StatusOr<WorkerId> BeginSession(const v1::SessionHello& hello,
                                        std::function<void()> cancel);
  // Fences the worker. Its pages come back once its processes have ended.
  void EndSession(WorkerId worker);

  // Fences workers whose lease has run out and ends their sessions. Ends orphans that no worker has
  // claimed in time.
  void ExpireLeases();

  // From now on Attach and MayOpen refuse, so sequences are neither opened nor claimed.
  void StartDraining() { draining_ = true; }
  absl::Status MayOpen() const;

  // Null until the first Attach.
  const Pool* pool() const { return created_.load(); }
  const PageSource& pages() const { return *options_.pages; }
  // The process of rank 0, or 0 if it is unknown.
  pid_t ProcessOf(WorkerId worker) const;
  // Does not count orphans.
  uint32_t RunningSequences() const;

 private:
  struct RankProcess {
    std::string export_token;  // empty once it is used
    bool fetched = false;      // it has the pool's descriptors
    pid_t pid = 0;             // 0 if it has not fetched, or is in another PID namespace
    bool ended = false;
  };
  struct Worker {
    std::string name;
    std::vector<RankProcess> ranks;
    std::string session_token;  // empty once it is used
    std::function<void()> cancel;
    bool keeps_connection = false;  // see ExportPeer
    bool fenced = false;
    pid_t pid() const { return ranks[0].pid; }
    // No process can write its pages any more. Precondition: the worker is fenced, so that no other
    // process can fetch descriptors.
    bool gone() const {
      const auto writes = [](const RankProcess& rank) { return rank.fetched && !rank.ended; };
      return std::none_of(ranks.begin(), ranks.end(), writes);
    }
  };

  absl::Status CheckDevice(const v1::AttachRequest& request) const;
  absl::Status CreateOrCompare(const v1::ModelLayout& layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Also logs why.
  void Fence(WorkerId id, Worker& worker, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReportFenced(WorkerId id, const Worker& worker, absl::string_view why);
  // Logs the orphans and quarantined pages that a fenced worker has added to `before`.
  void LogLeft(const cache::PoolInfo& before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndOrphans() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets fenced workers that hold nothing back.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Fences the worker. When its last process has ended, its pages are free.
  void ProcessEnded(WorkerProcess process);

  const Options options_;
  std::atomic<bool> draining_{false};
  std::atomic<const Pool*> created_{nullptr};
  mutable absl::Mutex mu_;
  std::unique_ptr<Pool> pool_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, Worker> workers_ ABSL_GUARDED_BY(mu_);
  ProcessWatch watch_;  // calls ProcessEnded, so it is destroyed first
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_WORKER_REGISTRY_H_
