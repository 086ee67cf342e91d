// DecisionThreads runs parts of a decision side by side. A prompt of thousands of tokens is read
// layer by layer, and while that lasts its sequence waits, so the layers are shared out. The caller
// works too, and never waits for a thread that is busy elsewhere.
#ifndef FOLIO_SERVICES_CACHE_DECISION_THREADS_H_
#define FOLIO_SERVICES_CACHE_DECISION_THREADS_H_

#include <cstdint>
#include <list>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace folio::cache {

// As many as are of use on this machine. More than a few wait for memory instead of each other, and
// workers need the processors too.
uint32_t DefaultDecisionThreads();

// Thread-safe: several callers share the threads.
class DecisionThreads {
 public:
  // So many threads beside the callers' own. None: callers do all of their work themselves.
  explicit DecisionThreads(uint32_t threads);
  ~DecisionThreads();
  DecisionThreads(const DecisionThreads&) = delete;
  DecisionThreads& operator=(const DecisionThreads&) = delete;

  uint32_t threads() const { return static_cast<uint32_t>(threads_.size()); }

  // Calls work(0), work(1), ... work(count - 1) on this thread and on idle ones, in any order, and
  // returns after the last of them has returned. `work` must not call Run.
  void Run(uint32_t count, absl::FunctionRef<void(uint32_t)> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    absl::FunctionRef<void(uint32_t)> work;
    uint32_t count;
    uint32_t next = 0;   // the first part that no thread has taken
    uint32_t ended = 0;  // parts that have returned
  };

  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes a part of the job, runs it without the lock, and counts it.
  void RunPart(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasPart() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !jobs_.empty() || ending_; }

  absl::Mutex mutex_;
  std::list<Job*> jobs_ ABSL_GUARDED_BY(mutex_);  // those with parts to take
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_DECISION_THREADS_H_
