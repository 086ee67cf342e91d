// Who is attached: each worker's tokens, process and session, from Attach until its pages are back.
//
//   Attach ─▶ export token redeemed (pidfd watched) ─▶ session begins ─▶ session ends, the lease
//   runs out or the process ends: fenced, its sequences orphaned, pages of others quarantined ─▶
//   process ended: these pages free, the orphans to be claimed, the worker forgotten
//
// A worker of several tensor-parallel ranks has a process and an export token for each: the first
// process that ends fences it, the last one frees its pages. The first Attach carves the pool.
#ifndef FOLIO_SERVICES_MANAGER_WORKER_ROSTER_H_
#define FOLIO_SERVICES_MANAGER_WORKER_ROSTER_H_

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
#include "services/common/clock.h"
#include "services/common/ids.h"
#include "services/common/unique_fd.h"
#include "services/manager/page_memory.h"
#include "services/manager/pool.h"
#include "services/manager/pool_size.h"
#include "services/manager/process_watch.h"

namespace folio::manager {

// What an export token was good for. The pool lives as long as the roster.
struct ExportGrant {
  const Pool* pool = nullptr;
  Rank rank;
};

// Thread-safe. Its lock is taken before the coordinator's, never after, and not per step.
class WorkerRoster {
 public:
  struct Options {
    const PageSource* pages = nullptr;  // borrowed
    PoolSize pool_size;
    absl::Duration lease_ttl;
    absl::Duration orphan_ttl = absl::ZeroDuration();  // sequences end with their worker
    std::string export_socket;                         // told to workers
    const Clock* clock = nullptr;
  };

  explicit WorkerRoster(Options options);

  // FAILED_PRECONDITION names each differing field with both values, and what a worker computes on
  // when the pages are elsewhere; UNAVAILABLE while draining. Carving fails as Pool::Carve does.
  absl::StatusOr<v1::AttachResponse> Attach(const v1::AttachRequest& request);

  // Uses up an export token for the process behind `pidfd`. PERMISSION_DENIED for a token that is
  // wrong, used, or of a worker that has been fenced.
  absl::StatusOr<ExportGrant> RedeemExportToken(absl::string_view token, pid_t pid, UniqueFd pidfd);

  // Uses up the session token. `cancel` ends the stream from another thread; it is not called after
  // EndSession returns. FAILED_PRECONDITION before all ranks have fetched their descriptors.
  absl::StatusOr<WorkerId> BeginSession(const v1::SessionHello& hello,
                                        std::function<void()> cancel);
  // Fences the worker; its pages come back once the process has ended.
  void EndSession(WorkerId worker);

  // Fences workers whose lease has run out and ends their sessions, and orphans that waited long
  // enough.
  void ExpireLeases();

  // From now on Attach and MayOpen refuse; sequences are neither opened nor claimed.
  void StartDraining() { draining_ = true; }
  absl::Status MayOpen() const;

  // Null until the first Attach.
  const Pool* pool() const { return carved_.load(); }
  const PageSource& pages() const { return *options_.pages; }
  // Of rank 0; 0 when unknown.
  pid_t ProcessOf(WorkerId worker) const;
  // Orphans are not among them.
  uint32_t RunningSequences() const;

 private:
  struct RankProcess {
    std::string export_token;  // empty: used
    pid_t pid = 0;             // 0: descriptors not fetched
    bool ended = false;
  };
  struct Worker {
    std::string name;
    std::vector<RankProcess> ranks;
    std::string session_token;  // empty: used
    std::function<void()> cancel;
    bool fenced = false;
    pid_t pid() const { return ranks[0].pid; }
    // Once fenced, nobody can fetch descriptors any more: then nothing can write its pages.
    bool gone() const {
      const auto writes = [](const RankProcess& rank) { return rank.pid != 0 && !rank.ended; };
      return std::none_of(ranks.begin(), ranks.end(), writes);
    }
  };

  absl::Status CheckDevice(const v1::AttachRequest& request) const;
  absl::Status CarveOrCompare(const v1::ModelLayout& layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Fences and logs why.
  void Fence(WorkerId id, Worker& worker, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void LogFenced(WorkerId id, const Worker& worker, absl::string_view why);
  // What a fenced worker left behind since the pool was as `before`.
  void LogLeft(const cache::PoolInfo& before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndOrphans() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets fenced workers that hold nothing back.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Fences the worker; the last of its processes proves it gone.
  void ProcessEnded(WorkerProcess process);

  const Options options_;
  std::atomic<bool> draining_{false};
  std::atomic<const Pool*> carved_{nullptr};
  mutable absl::Mutex mu_;
  std::unique_ptr<Pool> pool_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerId, Worker> workers_ ABSL_GUARDED_BY(mu_);
  ProcessWatch watch_;  // calls ProcessEnded: ends first
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_WORKER_ROSTER_H_
