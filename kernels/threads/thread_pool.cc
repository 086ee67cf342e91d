#include "kernels/threads/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "kernels/threads/cpu_quota.h"
#include "services/base/check.h"
#include "services/base/spin_pause.h"

namespace folio::kernels {
namespace {

// This is longer than the gap between two operations of a step, and too short to show as load.
constexpr std::chrono::microseconds kSpin{50};

void FutexWait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// Spins until `ready` or until the time is up; true when ready.
template <typename Ready>
bool SpinUntil(bool spin, Ready ready) {
  if (ready()) return true;
  if (!spin) return false;
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      SpinPause();
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

int AffinityCores() {
  // The kernel's mask may be larger than a cpu_set_t.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const int failed = sched_getaffinity(0, size, set);
    const int count = failed ? 0 : CPU_COUNT_S(size, set);
    CPU_FREE(set);
    if (!failed) return count;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int AvailableCores() {
  std::ifstream file("/proc/self/cgroup");
  const std::string membership((std::istreambuf_iterator<char>(file)),
                               std::istreambuf_iterator<char>());
  const double quota = std::ceil(CgroupCores(membership, "/sys/fs/cgroup"));
  const int affinity = AffinityCores();
  return std::max(1, quota < affinity ? static_cast<int>(quota) : affinity);
}

// A job is published as one 64-bit ticket, with the job's number in the high half and the number of
// tasks that are still free in the low half. Taking a task is a compare-and-swap on the ticket, so
// a thread that slept through a job cannot take part in it by mistake. While a task of job j is
// free, job j's body and size do not change, and once all are taken, a ticket of j has none to
// give.
struct ThreadPool::Impl {
  explicit Impl(int thread_count) : threads(thread_count), spin(thread_count <= AvailableCores()) {}

  const int threads;
  const bool spin;  // with more threads than cores, spinning takes time from threads that work

  alignas(64) std::atomic<uint64_t> ticket{0};
  absl::FunctionRef<void(int, int)>* body = nullptr;  // of the current job
  uint32_t tasks = 0;

  alignas(64) std::atomic<uint32_t> finished{0};  // tasks of the current job
  std::atomic<uint32_t> caller_sleeps{0};

  alignas(64) std::atomic<uint32_t> wake_word{0};  // changes with each job and at the end
  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> stop{false};

  std::vector<std::thread> workers;

  void RunTasks(int thread);
  void WorkerLoop(int thread);
  void WaitForFinish();
};

void ThreadPool::Impl::RunTasks(int thread) {
  uint64_t now = ticket.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(now) != 0) {
    if (!ticket.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    const uint32_t total = tasks;  // read before the task counts as finished
    (*body)(static_cast<int>(total - static_cast<uint32_t>(now)), thread);
    if (finished.fetch_add(1) + 1 == total && caller_sleeps.load() != 0) FutexWake(finished, 1);
    now = ticket.load(std::memory_order_acquire);
  }
}

void ThreadPool::Impl::WorkerLoop(int thread) {
  while (true) {
    const uint32_t seen = wake_word.load();
    if (stop.load()) return;
    RunTasks(thread);
    const auto changed = [&] { return wake_word.load(std::memory_order_acquire) != seen; };
    if (SpinUntil(spin, changed)) continue;
    sleepers.fetch_add(1);
    while (wake_word.load() == seen) FutexWait(wake_word, seen);
    sleepers.fetch_sub(1);
  }
}

void ThreadPool::Impl::WaitForFinish() {
  const auto done = [&] { return finished.load(std::memory_order_acquire) == tasks; };
  if (SpinUntil(spin, done)) return;
  caller_sleeps.store(1);
  for (uint32_t f = finished.load(); f != tasks; f = finished.load()) FutexWait(finished, f);
  caller_sleeps.store(0);
}

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>(std::max(1, threads))) {
  for (int t = 1; t < impl_->threads; ++t) {
    impl_->workers.emplace_back([impl = impl_.get(), t] { impl->WorkerLoop(t); });
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true);
  impl_->wake_word.fetch_add(1);
  FutexWake(impl_->wake_word, INT_MAX);
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::threads() const { return impl_->threads; }

void ThreadPool::ParallelFor(int tasks, absl::FunctionRef<void(int task, int thread)> body) {
  if (tasks <= 0) return;
  if (tasks == 1 || impl_->threads == 1) {
    for (int task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  Impl& pool = *impl_;
  FOLIO_DCHECK(static_cast<uint32_t>(pool.ticket.load()) == 0);  // one caller, not reentrant
  pool.body = &body;
  pool.tasks = static_cast<uint32_t>(tasks);
  pool.finished.store(0, std::memory_order_relaxed);
  const uint64_t job = (pool.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  pool.ticket.store(job << 32 | static_cast<uint32_t>(tasks), std::memory_order_release);
  pool.wake_word.fetch_add(1);
  if (pool.sleepers.load() != 0) FutexWake(pool.wake_word, std::min(tasks, pool.threads) - 1);
  pool.RunTasks(0);
  pool.WaitForFinish();
}

}  // namespace folio::kernels
