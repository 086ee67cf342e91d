#include "tests/gpu/emulate/emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace folio::emulate {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr unsigned kMostThreads = 1024;

enum class State : uint8_t { kReady, kAtWarp, kAtBlock, kDone };

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "emulated kernel, block (%u, %u, %u), thread (%u, %u, %u): %s\n",
               place.block.x, place.block.y, place.block.z, place.thread.x, place.thread.y,
               place.thread.z, what);
  std::abort();
}

// AddressSanitizer wants to know on which stack we are.
class Switch {
 public:
  Switch(const void* stack, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from_, stack, bytes);
#endif
  }
  void Done() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from_, nullptr, nullptr);
#endif
  }

 private:
  [[maybe_unused]] void* from_ = nullptr;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  State state = State::kDone;
  Index3 thread;
  unsigned exchanges = 0;  // its parity says which of the warp's two sets of numbers is in use
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
    Switch to_scheduler(scheduler_stack_, scheduler_stack_bytes_);
    swapcontext(&self.context, &scheduler_);
    to_scheduler.Done();
  }

  uint64_t Exchange(uint64_t mine, unsigned lane) {
    Fiber& self = fibers_[current_];
    // Two sets: nobody comes to the second exchange from here before all have read this one's.
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
    if (count_ == 0 || count_ % kWarp != 0 || count_ > kMostThreads) {
      Fail("a block has 32 to 1024 threads in whole warps");
    }
    if (fibers_.size() < count_) fibers_.resize(count_);
    warps_.resize(count_ / kWarp);
    for (unsigned i = 0; i < count_; ++i) {
      Fiber& fiber = fibers_[i];
      fiber.thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
      fiber.state = State::kReady;
      fiber.exchanges = 0;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &Scheduler::Entry, 0);
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
    Switch to_fiber(fibers_[index].stack.get(), kStackBytes);
    swapcontext(&scheduler_, &fibers_[index].context);
    to_fiber.Done();
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
  ucontext_t scheduler_;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_bytes_ = 0;
  unsigned current_ = 0, count_ = 0;
  uint64_t blocks_ = 0;
  std::minstd_rand random_;
};

Scheduler& TheScheduler() {
  static Scheduler scheduler;
  return scheduler;
}

void Scheduler::Entry() {
  Scheduler& self = TheScheduler();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
#endif
  (*self.body_)();
  Fiber& fiber = self.fibers_[self.current_];
  fiber.state = State::kDone;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, self.scheduler_stack_, self.scheduler_stack_bytes_);
#endif
  setcontext(&self.scheduler_);
}

}  // namespace

void RunGrid(Index3 grid, Index3 block, const std::function<void()>& thread) {
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
