#include "tests/emulator/emulator.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace folio::emulate {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr unsigned kMaxThreads = 1024;

enum class State : uint8_t { kReady, kAtWarp, kAtBlock, kDone };

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "emulated kernel, block (%u, %u, %u), thread (%u, %u, %u): %s\n",
               place.block.x, place.block.y, place.block.z, place.thread.x, place.thread.y,
               place.thread.z, what);
  std::abort();
}

// One thread of a block, on a stack of its own. Switching back and forth goes by setjmp, which is
// ten times as fast as swapcontext; AddressSanitizer follows only the latter, and wants to be told.
class Fiber {
 public:
  State state = State::kDone;
  Index3 thread;
  unsigned exchanges = 0;  // its parity says which of the warp's two sets of numbers is in use

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
#else
    if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
#endif
  }

 private:
  ucontext_t context_;
  std::unique_ptr<char[]> stack_{new char[kStackBytes]};
  bool started_ = false;
#if defined(__SANITIZE_ADDRESS__)
  static inline ucontext_t outside_;
  static inline const void* outside_stack_ = nullptr;
  static inline size_t outside_bytes_ = 0;
#else
  jmp_buf inside_;
  static inline jmp_buf outside_;
#endif
};

struct Warp {
  uint64_t numbers[2][kWarp];
};

// One block's threads, made once and used for block after block.
class Scheduler {
 public:
  void RunBlock(Index3 size, const std::function<void()>& thread) {
    body_ = &thread;
    Start(size);
    while (!AllAre(State::kDone)) {
      for (const unsigned warp : Shuffled(warps_.size())) RunWarp(warp);
      if (AllAre(State::kAtBlock)) {
        Release(0, count_);
      } else if (!AllAre(State::kDone)) {
        Fail("some threads wait at a barrier that others never reach");
      }
    }
    ++blocks_;
  }

  void Wait(State state) {
    Fiber& self = fibers_[current_];
    self.state = state;
    self.Leave();
  }

  uint64_t Exchange(uint64_t mine, unsigned lane) {
    Fiber& self = fibers_[current_];
    // Two sets: no lane reaches the second exchange from here before all lanes have read this
    // one's.
    uint64_t* numbers = warps_[current_ / kWarp].numbers[self.exchanges++ % 2];
    numbers[current_ % kWarp] = mine;
    Wait(State::kAtWarp);
    return numbers[lane % kWarp];
  }

  uint64_t* Gather(uint64_t mine) {
    Fiber& self = fibers_[current_];
    uint64_t* numbers = warps_[current_ / kWarp].numbers[self.exchanges++ % 2];
    numbers[current_ % kWarp] = mine;
    Wait(State::kAtWarp);
    return numbers;
  }

  uint64_t blocks() const { return blocks_; }

 private:
  static void Entry();

  void Start(Index3 size) {
    count_ = size.x * size.y * size.z;
    if (count_ == 0 || count_ % kWarp != 0 || count_ > kMaxThreads) {
      Fail("a block has 32 to 1024 threads in whole warps");
    }
    if (fibers_.size() < count_) fibers_.resize(count_);
    warps_.resize(count_ / kWarp);
    for (unsigned i = 0; i < count_; ++i) {
      Fiber& fiber = fibers_[i];
      fiber.thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
      fiber.state = State::kReady;
      fiber.exchanges = 0;
      fiber.Start(&Scheduler::Entry);
    }
  }

  // Until each of its threads is done or waits for the block.
  void RunWarp(unsigned warp) {
    const unsigned first = warp * kWarp;
    for (;;) {
      for (const unsigned lane : Shuffled(kWarp)) {
        if (fibers_[first + lane].state == State::kReady) Resume(first + lane);
      }
      unsigned waiting = 0;
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        waiting += fibers_[first + lane].state == State::kAtWarp;
      }
      if (waiting == 0) return;
      if (waiting < kWarp) Fail("an exchange within a warp that not all of its lanes reach");
      Release(first, kWarp);
    }
  }

  void Resume(unsigned index) {
    current_ = index;
    place.thread = fibers_[index].thread;
    fibers_[index].Enter();
  }

  void Release(unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; ++i) fibers_[i].state = State::kReady;
  }

  bool AllAre(State state) const {
    return std::all_of(fibers_.begin(), fibers_.begin() + count_,
                       [&](const Fiber& fiber) { return fiber.state == state; });
  }

  const std::vector<unsigned>& Shuffled(size_t count) {
    std::vector<unsigned>& order = count == kWarp ? lane_order_ : warp_order_;
    if (order.size() != count) {
      order.resize(count);
      std::iota(order.begin(), order.end(), 0u);
    }
    // Rotated and now and then turned round: cheap, and any two change places sooner or later.
    std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(random_() % count),
                order.end());
    if (random_() % 2) std::reverse(order.begin(), order.end());
    return order;
  }

  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> lane_order_, warp_order_;
  const std::function<void()>* body_ = nullptr;
  unsigned current_ = 0, count_ = 0;
  uint64_t blocks_ = 0;
  std::minstd_rand random_;
};

Scheduler& TheScheduler() {
  static Scheduler scheduler;
  return scheduler;
}

void Scheduler::Entry() {
  Fiber::Entered();
  Scheduler& self = TheScheduler();
  (*self.body_)();
  Fiber& fiber = self.fibers_[self.current_];
  fiber.state = State::kDone;
  fiber.Leave();
}

}  // namespace

void RunGrid(Index3 grid, Index3 block, const std::function<void()>& thread) {
  static std::mutex one_grid;
  const std::lock_guard<std::mutex> lock(one_grid);
  place.grid_size = grid;
  place.block_size = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        place.block = {x, y, z};
        TheScheduler().RunBlock(block, thread);
      }
    }
  }
}

void BlockBarrier() { TheScheduler().Wait(State::kAtBlock); }

uint64_t Exchange(uint64_t mine, unsigned lane) { return TheScheduler().Exchange(mine, lane); }

uint32_t Ballot(bool mine) {
  const uint64_t* all = TheScheduler().Gather(mine);
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) bits |= static_cast<uint32_t>(all[lane]) << lane;
  return bits;
}

uint64_t BlocksRun() { return TheScheduler().blocks(); }

}  // namespace folio::emulate
