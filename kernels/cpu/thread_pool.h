// Threads for one step's kernels. The caller is thread 0; the others spin shortly between the ops
// of a step and sleep (futex) when there is nothing to do, so that an idle worker costs no CPU.
#ifndef FOLIO_KERNELS_CPU_THREAD_POOL_H_
#define FOLIO_KERNELS_CPU_THREAD_POOL_H_

#include <memory>

#include "absl/functional/function_ref.h"

namespace folio::kernels::cpu {

// Cores this process may use: the smaller of its affinity mask and its cgroup CPU quota (v1 or v2,
// rounded up), at least 1.
int AvailableCores();

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(task, thread) for each task in [0, tasks), `thread` in [0, threads()), and returns
  // when all are done. Tasks are handed out dynamically. One caller at a time; not reentrant.
  void ParallelFor(int tasks, absl::FunctionRef<void(int task, int thread)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace folio::kernels::cpu

#endif  // FOLIO_KERNELS_CPU_THREAD_POOL_H_
