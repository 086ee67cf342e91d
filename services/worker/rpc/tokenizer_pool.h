// TokenizerPool is the threads that check and tokenize requests. A text of a megabyte takes a good
// part of a second, and on gRPC's own threads, which are few, other calls and health checks would
// wait for it.
#ifndef FOLIO_SERVICES_WORKER_RPC_TOKENIZER_POOL_H_
#define FOLIO_SERVICES_WORKER_RPC_TOKENIZER_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace folio::worker {

// Limits of the requests that wait. They hold their messages, so their bytes count too.
struct TokenizerPoolLimits {
  int threads = 2;
  size_t tasks = 4096;
  size_t bytes = size_t{64} << 20;
};

// Thread-safe.
class TokenizerPool {
 public:
  explicit TokenizerPool(const TokenizerPoolLimits& limits = {});
  // Runs what waits, and then ends the threads.
  ~TokenizerPool();
  TokenizerPool(const TokenizerPool&) = delete;
  TokenizerPool& operator=(const TokenizerPool&) = delete;

  // Runs `task` on one of the threads, in the order of the calls. RESOURCE_EXHAUSTED if too much
  // waits; the task is then not run. `bytes` is the size of the request. A task that alone is
  // larger than the limit may wait if no other does.
  absl::Status Run(size_t bytes, std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    size_t bytes = 0;
    std::function<void()> run;
  };

  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !waiting_.empty() || ending_; }

  const TokenizerPoolLimits limits_;
  absl::Mutex mutex_;
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_TOKENIZER_POOL_H_
