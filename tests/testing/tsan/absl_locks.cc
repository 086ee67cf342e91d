// Tells ThreadSanitizer what absl::Mutex, absl::CondVar, absl::Notification and the reference
// counts of absl::Status order. It sees none of it in the distribution's library, and would report
// races that are none.
#include <string>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/testing/tsan/announce.h"

namespace {

#define FOLIO_STRING(x) #x
#define FOLIO_EXPANDED_STRING(x) FOLIO_STRING(x)

// The library's own function; `suffix` is its mangled name behind absl's inline namespace, and
// `qualifier` is "K" for a const one.
template <typename Function>
Function* Real(const std::string& suffix, const std::string& qualifier = "") {
  const std::string space = FOLIO_EXPANDED_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name =
      "_ZN" + qualifier + "4absl" + std::to_string(space.size()) + space + suffix;
  return folio::testing::Real<Function>(name.c_str());
}

// Inside the library a thread may evaluate the conditions of others, under a lock that was, for
// ThreadSanitizer, released before; their reads are not looked at.
template <typename Function, typename... Args>
auto Call(Function* function, Args... args) {
  const folio::testing::NotLookedAt reads;
  return function(args...);
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static auto* const real = Real<void(Mutex*)>("5Mutex4LockEv");
  Call(real, this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static auto* const real = Real<bool(Mutex*)>("5Mutex7TryLockEv");
  const bool locked = Call(real, this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static auto* const real = Real<void(Mutex*)>("5Mutex6UnlockEv");
  __tsan_release(this);
  Call(real, this);
}

void Mutex::ReaderLock() {
  static auto* const real = Real<void(Mutex*)>("5Mutex10ReaderLockEv");
  Call(real, this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static auto* const real = Real<void(Mutex*)>("5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  Call(real, this);
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const real =
      Real<void(Mutex*, const Condition*)>("5Mutex8LockWhenERKNS0_9ConditionE");
  Call(real, this, &condition);
  __tsan_acquire(this);
}

void Mutex::Await(const Condition& condition) {
  static auto* const real = Real<void(Mutex*, const Condition*)>("5Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  Call(real, this, &condition);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const real = Real<bool(Mutex*, const Condition*, Duration)>(
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  const bool held = Call(real, this, &condition, timeout);
  __tsan_acquire(this);
  return held;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static auto* const real = Real<bool(Mutex*, const Condition*, Time)>(
      "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_release(this);
  const bool held = Call(real, this, &condition, deadline);
  __tsan_acquire(this);
  return held;
}

void CondVar::Wait(Mutex* mu) {
  static auto* const real = Real<void(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mu);
  Call(real, this, mu);
  __tsan_acquire(mu);
}

bool CondVar::WaitWithTimeout(Mutex* mu, Duration timeout) {
  static auto* const real = Real<bool(CondVar*, Mutex*, Duration)>(
      "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mu);
  const bool timed_out = Call(real, this, mu, timeout);
  __tsan_acquire(mu);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mu, Time deadline) {
  static auto* const real =
      Real<bool(CondVar*, Mutex*, Time)>("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mu);
  const bool timed_out = Call(real, this, mu, deadline);
  __tsan_acquire(mu);
  return timed_out;
}

// HasBeenNotified, which is inline, acquires this address too.
void Notification::Notify() {
  static auto* const real = Real<void(Notification*)>("12Notification6NotifyEv");
  __tsan_release(&notified_yet_);
  Call(real, this);
}

void Notification::WaitForNotification() const {
  static auto* const real =
      Real<void(const Notification*)>("12Notification19WaitForNotificationEv", "K");
  Call(real, this);
  __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const real = Real<bool(const Notification*, Duration)>(
      "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE", "K");
  const bool notified = Call(real, this, timeout);
  if (notified) __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static auto* const real = Real<bool(const Notification*, Time)>(
      "12Notification31WaitForNotificationWithDeadlineENS0_4TimeE", "K");
  const bool notified = Call(real, this, deadline);
  if (notified) __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

// The owner that drops the last reference deletes what others have read.
void Status::UnrefNonInlined(uintptr_t rep) {
  static auto* const real = Real<void(uintptr_t)>("6Status15UnrefNonInlinedEm");
  void* const address = reinterpret_cast<void*>(rep);
  __tsan_release(address);
  __tsan_acquire(address);
  real(rep);
}

ABSL_NAMESPACE_END
}  // namespace absl
