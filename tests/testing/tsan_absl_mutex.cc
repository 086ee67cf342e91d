// Tells ThreadSanitizer what absl::Mutex and absl::CondVar order. The distribution's libraries are
// not built for it, so it sees no lock where they have one and reports races that are none. The
// definitions here stand before the shared library's (gRPC's calls included), call it, and announce
// what was acquired or released. Linked into ThreadSanitizer builds only.
#include <dlfcn.h>

#include <string>

#include "absl/base/config.h"
#include "absl/synchronization/mutex.h"
#include "services/base/check.h"

extern "C" {
void __tsan_acquire(void* addr);
void __tsan_release(void* addr);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace {

#define FOLIO_STRING(x) #x
#define FOLIO_EXPANDED_STRING(x) FOLIO_STRING(x)

// The library's own function; `suffix` is its mangled name behind absl's inline namespace.
template <typename Function>
Function* Real(const char* suffix) {
  const std::string space = FOLIO_EXPANDED_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name = "_ZN4absl" + std::to_string(space.size()) + space + suffix;
  void* symbol = dlsym(RTLD_NEXT, name.c_str());
  FOLIO_CHECK(symbol != nullptr);
  return reinterpret_cast<Function*>(symbol);
}

// Inside the library a thread may evaluate the conditions of others, under a lock that was, for
// ThreadSanitizer, released before; their reads are not looked at.
class InLibrary {
 public:
  InLibrary() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~InLibrary() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;
};

template <typename Function, typename... Args>
auto Call(Function* function, Args... args) {
  const InLibrary ignore;
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

ABSL_NAMESPACE_END
}  // namespace absl
