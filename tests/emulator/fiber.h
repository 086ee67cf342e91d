// Fiber is one thread of an emulated block, on a stack of its own.
#ifndef FOLIO_TESTS_EMULATOR_FIBER_H_
#define FOLIO_TESTS_EMULATOR_FIBER_H_

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tests/emulator/emulator.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(FOLIO_EMULATOR_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace folio::emulate {

inline constexpr size_t kStackBytes = size_t{128} << 10;

enum class State : uint8_t { kReady, kAtWarp, kAtBlock, kDone };

// Under ThreadSanitizer these say that memory is ordered at a barrier. A switch between fibers does
// not order it, so an access that only the order of the fibers keeps apart is reported.
inline void Publish([[maybe_unused]] void* barrier) {
#if defined(FOLIO_EMULATOR_TSAN)
  __tsan_release(barrier);
#endif
}
inline void Observe([[maybe_unused]] void* barrier) {
#if defined(FOLIO_EMULATOR_TSAN)
  __tsan_acquire(barrier);
#endif
}

// Switching back and forth goes by setjmp, which is ten times as fast as swapcontext; the
// sanitizers follow only the latter, and want to be told.
class Fiber {
 public:
  State state = State::kDone;
  Index3 thread;
  // Their parity says which of the warp's two sets of numbers, or of two barriers, is in use.
  unsigned exchanges = 0, barriers = 0, warp_barriers = 0;
  bool waited = false;  // for earlier kernels

  // Makes ready to run `entry` from the start.
  void Start(void (*entry)()) {
    started_ = false;
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }

  // From the scheduler: runs on until it leaves.
  void Enter() {
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_.get(), kStackBytes);
    swapcontext(&outside_, &context_);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#elif defined(FOLIO_EMULATOR_TSAN)
    if (followed_ == nullptr) followed_ = __tsan_create_fiber(0);
    outside_followed_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(followed_, __tsan_switch_to_fiber_no_sync);
    swapcontext(&outside_, &context_);
#else
    if (_setjmp(outside_) != 0) return;
    if (started_) _longjmp(inside_, 1);
    started_ = true;
    setcontext(&context_);
#endif
  }

  // First thing on the fiber's own stack.
  static void Entered() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &outside_stack_, &outside_bytes_);
#endif
  }

  // From the fiber: back to the scheduler. Returns when it is entered again.
  void Leave() {
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, outside_stack_, outside_bytes_);
    swapcontext(&context_, &outside_);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#elif defined(FOLIO_EMULATOR_TSAN)
    __tsan_switch_to_fiber(outside_followed_, __tsan_switch_to_fiber_no_sync);
    swapcontext(&context_, &outside_);
#else
    if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
#endif
  }

 private:
  ucontext_t context_;
  std::unique_ptr<char[]> stack_{new char[kStackBytes]};
  bool started_ = false;
#if defined(__SANITIZE_ADDRESS__)
  static inline thread_local ucontext_t outside_;
  static inline thread_local const void* outside_stack_ = nullptr;
  static inline thread_local size_t outside_bytes_ = 0;
#elif defined(FOLIO_EMULATOR_TSAN)
  void* followed_ = nullptr;
  static inline thread_local ucontext_t outside_;
  static inline thread_local void* outside_followed_ = nullptr;
#else
  jmp_buf inside_;
  static inline thread_local jmp_buf outside_;
#endif
};

}  // namespace folio::emulate

#endif  // FOLIO_TESTS_EMULATOR_FIBER_H_
