// Makes the timed waits of Abseil, and with them the timers of gRPC, independent of the time of
// day.
//
// Abseil 20220623 turns each timeout into a time of day, and lets the kernel wait until then. gRPC
// 1.51 sets its timers by such waits. If the clock is set back by an hour, a thread that waits for
// 50 ms waits for that hour too, and a channel that has lost its server does not connect again
// before. Here such a wait ends when the time has passed that was left when it began.
//
// Abseil calls the functions below by weak symbols so that a program can replace them. Programs
// take this file as a source, because a library would not replace what another library defines.
// Later releases of Abseil count relative timeouts on the steady clock themselves.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "absl/base/config.h"
#include "absl/synchronization/internal/create_thread_identity.h"
#include "absl/synchronization/internal/kernel_timeout.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/internal/waiter.h"

#if ABSL_LTS_RELEASE_VERSION == 20220623 && ABSL_WAITER_MODE == ABSL_WAITER_MODE_FUTEX

namespace {

using absl::synchronization_internal::KernelTimeout;
using absl::synchronization_internal::Waiter;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLongest = kSecond * 3600 * 24 * 365 * 100;

int64_t Nanos(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

int64_t Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return Nanos(now);
}

// The same moment, on CLOCK_MONOTONIC.
timespec SteadyEnd(KernelTimeout timeout) {
  const timespec end = timeout.MakeAbsTimespec();
  const int64_t seconds = std::min<int64_t>(end.tv_sec, INT64_MAX / kSecond - 1);
  const int64_t left = seconds * kSecond + end.tv_nsec - Now(CLOCK_REALTIME);
  const int64_t steady = Now(CLOCK_MONOTONIC) + std::clamp<int64_t>(left, 0, kLongest);
  return {steady / kSecond, steady % kSecond};
}

// As Waiter::Wait, which takes one from the counter that Waiter::Post adds to.
bool WaitUntil(std::atomic<int32_t>& posted, const timespec& steady_end) {
  for (;;) {
    for (int32_t count = posted.load(std::memory_order_relaxed); count != 0;) {
      if (posted.compare_exchange_weak(count, count - 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    const long result = syscall(SYS_futex, &posted, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0,
                                &steady_end, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (result == -1 && errno == ETIMEDOUT) return false;
  }
}

}  // namespace

extern "C" bool ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(KernelTimeout timeout) {
  auto* const identity = absl::synchronization_internal::GetOrCreateCurrentThreadIdentity();
  Waiter* const waiter = Waiter::GetWaiter(identity);
  if (!timeout.has_timeout()) return waiter->Wait(timeout);
  // The counter is the only member of a Waiter that waits by futex.
  static_assert(sizeof(Waiter) == sizeof(std::atomic<int32_t>));
  return WaitUntil(*reinterpret_cast<std::atomic<int32_t>*>(waiter), SteadyEnd(timeout));
}

#endif
