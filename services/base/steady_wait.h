// SteadyCondVar is a condition variable whose waits end at a steady deadline, and
// SteadyNotification is a notification of that kind. The timed waits of absl::Mutex, absl::CondVar
// and absl::Notification end at a time of day instead: a clock that is set forward ends them at
// once, and one that is set back makes them last longer by as much.
#ifndef FOLIO_SERVICES_BASE_STEADY_WAIT_H_
#define FOLIO_SERVICES_BASE_STEADY_WAIT_H_

#include <chrono>
#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"

#if defined(__GLIBCXX__) && !defined(_GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT)
#error "This C++ library waits until a time of day. Use glibc 2.30 and GCC 10, or newer ones."
#endif

namespace folio {

// It belongs to an absl::Mutex. A thread that changes something that `ready` reads calls SignalAll
// afterwards, with or without the mutex. Thread-safe.
class SteadyCondVar {
 public:
  void SignalAll() { changed_.notify_all(); }

  // Releases the mutex and waits until `ready()` is true or the deadline has come. `ready` is
  // called with the mutex held. Returns what it said last.
  template <typename Ready>
  bool Await(absl::Mutex* mutex, SteadyTime deadline, const Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Held held{mutex};
    while (!ready()) {
      if (deadline == SteadyTime::InfiniteFuture()) {
        changed_.wait(held);
      } else if (SteadyNow() < deadline) {
        changed_.wait_until(held, std::chrono::steady_clock::time_point(
                                      absl::ToChronoNanoseconds(deadline.since_zero())));
      } else {
        return false;
      }
    }
    return true;
  }

 private:
  // An absl::Mutex by the names that the standard library uses.
  struct Held {
    absl::Mutex* mutex;
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
  };

  std::condition_variable_any changed_;
};

// SteadyNotification tells waiting threads, once, that something has happened. Thread-safe.
class SteadyNotification {
 public:
  void Notify() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    notified_ = true;
    changed_.SignalAll();
  }

  // Waits for Notify. False if it has not come within `timeout`.
  bool WaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    return changed_.Await(&mutex_, SteadyNow() + timeout,
                          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return notified_; });
  }

 private:
  absl::Mutex mutex_;
  SteadyCondVar changed_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_STEADY_WAIT_H_
