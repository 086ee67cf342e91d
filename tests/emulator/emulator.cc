#include "tests/emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulator/fiber.h"

namespace folio::emulate {
namespace {

constexpr unsigned kMaxThreads = 1024;

std::atomic<uint64_t> blocks_run{0};

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "emulated kernel, block (%u, %u, %u), thread (%u, %u, %u): %s\n",
               place.block.x, place.block.y, place.block.z, place.thread.x, place.thread.y,
               place.thread.z, what);
  std::abort();
}

// What a lane gives to a product of tiles.
struct Operands {
  uint32_t a[4], b[2];
};

struct Warp {
  uint64_t numbers[2][kWarp];
  Operands operands[2][kWarp];
  char barriers[2];
};

// One block's threads, made once and used for block after block.
class Scheduler {
 public:
  void RunBlock(Index3 size, bool overlaps, const std::function<void()>& thread) {
    body_ = &thread;
    overlaps_ = overlaps;
    Start(size);
    Publish(&begun_);
    while (!AllAre(State::kDone)) {
      for (const unsigned warp : Shuffled(warps_.size())) RunWarp(warp);
      if (AllAre(State::kAtBlock)) {
        Release(0, count_);
      } else if (!AllAre(State::kDone)) {
        Fail("some threads wait at a barrier that others never reach");
      }
    }
    Observe(&ended_);
    blocks_run.fetch_add(1, std::memory_order_relaxed);
  }

  // As with exchanges there are two of each barrier: a thread that is fast comes to the next one
  // before others have left this one, and must not seem to be ordered before them.
  void Barrier() {
    char* barrier = &barriers_[fibers_[current_].barriers++ % 2];
    Publish(barrier);
    Wait(State::kAtBlock);
    Observe(barrier);
  }

  void WarpBarrier() {
    char* barrier = &warps_[current_ / kWarp].barriers[fibers_[current_].warp_barriers++ % 2];
    Publish(barrier);
    Wait(State::kAtWarp);
    Observe(barrier);
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

  const Operands* Gather(const Operands& mine) {
    Fiber& self = fibers_[current_];
    Operands* operands = warps_[current_ / kWarp].operands[self.exchanges++ % 2];
    operands[current_ % kWarp] = mine;
    Wait(State::kAtWarp);
    return operands;
  }

  void WaitForEarlierKernels() { fibers_[current_].waited = true; }

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
      fiber.exchanges = fiber.barriers = fiber.warp_barriers = 0;
      fiber.waited = false;
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
  bool overlaps_ = false;
  unsigned current_ = 0, count_ = 0;
  char begun_ = 0, barriers_[2] = {}, ended_ = 0;  // their addresses are the names of barriers
  std::minstd_rand random_;
};

Scheduler& TheScheduler() {
  static thread_local Scheduler scheduler;
  return scheduler;
}

void Scheduler::Entry() {
  Fiber::Entered();
  Scheduler& self = TheScheduler();
  Observe(&self.begun_);
  (*self.body_)();
  Publish(&self.ended_);
  Fiber& fiber = self.fibers_[self.current_];
  if (self.overlaps_ && !fiber.waited) {
    Fail("a thread of a kernel that may overlap has not waited for earlier kernels");
  }
  fiber.state = State::kDone;
  fiber.Leave();
}

}  // namespace

void RunGrid(Index3 grid, Index3 block, const std::function<void()>& thread, bool overlaps) {
  place.grid_size = grid;
  place.block_size = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        place.block = {x, y, z};
        TheScheduler().RunBlock(block, overlaps, thread);
      }
    }
  }
}

void BlockBarrier() { TheScheduler().Barrier(); }
void WarpBarrier() { TheScheduler().WarpBarrier(); }

uint64_t Exchange(uint64_t mine, unsigned lane) { return TheScheduler().Exchange(mine, lane); }

uint32_t Ballot(bool mine) {
  const uint64_t* all = TheScheduler().Gather(mine);
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) bits |= static_cast<uint32_t>(all[lane]) << lane;
  return bits;
}

// Element k, k + 1 of row or column `index` of a tile is in register (k / 8) of lane (index, k % 8
// / 2).
void MultiplyTiles(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4]) {
  const Operands* all = TheScheduler().Gather(Operands{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const auto number = [](uint32_t pair, unsigned k) {
    return std::bit_cast<float>(k % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
  };
  const unsigned lane = place.thread.x % kWarp;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4;
    const unsigned column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned t = k % 8 / 2;
      c[i] += number(all[row * 4 + t].a[k / 8 * 2 + i / 2], k) *
              number(all[column * 4 + t].b[k / 8], k);
    }
  }
}

void WaitForEarlierKernels() { TheScheduler().WaitForEarlierKernels(); }

// ThreadSanitizer, which does not look at this file, has no fences.
void Fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

uint64_t BlocksRun() { return blocks_run; }

}  // namespace folio::emulate
