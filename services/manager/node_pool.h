// NodePool is the pool that the manager has at the moment, and knows which processes may have its
// memory mapped.
//
// Attach makes a pool for the first worker, because only a worker knows the model. A pool of
// another layout may take its place when nothing could notice: no process has its memory mapped,
// and no sequence is left in it. So a layout that somebody only claims to have, and never fetches
// descriptors for, keeps no worker out, and a manager outlives a change of the model.
#ifndef FOLIO_SERVICES_MANAGER_NODE_POOL_H_
#define FOLIO_SERVICES_MANAGER_NODE_POOL_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/base/ids.h"
#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/pool_size.h"
#include "services/manager/pool.h"
#include "services/manager/process_watch.h"

namespace folio::manager {

// Thread-safe. No reader waits while a pool is made.
class NodePool {
 public:
  struct Options {
    const PageSource* pages = nullptr;  // borrowed
    PoolSize size;
    std::function<std::map<std::string, uint64_t>()> beside;  // see PoolSize; may be empty
    PoolRules rules;
    PoolUsers users;          // without ids, the pools have some of their own
    cache::LastIds last_ids;  // of the managers before this one
  };

  explicit NodePool(const Options& options);

  // Null before the first Make. A pool lives as long as somebody has its pointer, and only the
  // current one has workers.
  std::shared_ptr<const Pool> current() const;

  // UNAVAILABLE, which a worker tries again after, while a process may have the current pool
  // mapped, a sequence is left in it, or a call still reads it. OK without a pool.
  absl::Status CheckUnused() const;

  // Makes a pool in place of the current one, whose memory is given back first. The ids of workers
  // and sequences continue. The errors are those of CheckUnused and Pool::Create; after one of the
  // latter there is no pool. One thread at a time.
  absl::Status Make(const v1::ModelLayout& layout);

  // The pool of the manager before this one, as its journal has it. Until the memory is complete,
  // none of its sequences can be claimed.
  absl::StatusOr<std::shared_ptr<Pool>> Expect(const folio::state::v1::JournalPool& saved);

  // Begins a new file of the journal and tells it all that there is, while others work.
  void TellAll();

  // `process` gets descriptors of the current pool. Its `pid` is 0 if it is unknown. Returns former
  // attachments of the same process that were left: only the new one counts from now on.
  std::vector<WorkerProcess> NoteMapped(WorkerProcess process, pid_t pid);
  // The worker is forgotten, and its processes may live on.
  void NoteLeft(WorkerId worker);
  // The process, or each process of the worker, can use the memory no more.
  void NoteUnmapped(WorkerProcess process);
  void NoteUnmapped(WorkerId worker);

 private:
  struct Mapping {
    pid_t pid = 0;
    bool left = false;
  };

  absl::Status CheckUnusedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  cache::IdSource own_ids_;
  Options options_;  // constant, and names some source of ids
  mutable absl::Mutex mu_;
  std::shared_ptr<Pool> pool_ ABSL_GUARDED_BY(mu_);
  std::map<WorkerProcess, Mapping> mapped_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_NODE_POOL_H_
