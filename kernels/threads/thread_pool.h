// ThreadPool runs the kernels of one step on several threads. The caller is thread 0. The others
// spin shortly between the operations of a step, because waking a thread costs more than the gap,
// and sleep on a futex when there is nothing to do, so that an idle worker costs no CPU.
#ifndef FOLIO_KERNELS_THREADS_THREAD_POOL_H_
#define FOLIO_KERNELS_THREADS_THREAD_POOL_H_

#include <memory>

#include "absl/functional/function_ref.h"

namespace folio::kernels {

// The number of cores that this process may use, at least 1. It is the smaller of the affinity mask
// and the cgroup's CPU quota (v1 or v2, rounded up).
int AvailableCores();

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(task, thread) for each task in [0, tasks), `thread` in [0, threads()), and returns
  // when all are done. Tasks are handed out dynamically. There may be one caller at a time, and
  // `body` must not call it.
  void ParallelFor(int tasks, absl::FunctionRef<void(int task, int thread)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_THREADS_THREAD_POOL_H_
