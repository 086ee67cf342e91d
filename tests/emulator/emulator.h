// The emulator runs a kernel's threads on the host, so that the arithmetic and the addressing of
// device code are tested on machines without a GPU. Each thread of a block is a fiber, and
// `__syncthreads` and the warp's exchanges switch between them. The sources of kernels/cuda are
// compiled for it without changes, against the headers in include/ instead of CUDA's.
//
// It is stricter than a GPU: blocks are whole warps, a warp's exchange needs all 32 lanes, and a
// barrier needs all threads of the block. Anything else ends the program with a message. Warps and
// lanes run in an order that changes from switch to switch, so that a missing barrier shows. Under
// ThreadSanitizer every missing barrier shows, also between lanes that only an exchange keeps
// apart. An exchange does not order memory on a GPU. Blocks run one after another. Shared memory is
// static only, atomics have no contention, and there is no timing.
//
// Threads, as ranks of a group are, run kernels beside each other. A kernel that waits for another
// rank's kernel thus waits for that rank's thread or process.
#ifndef FOLIO_TESTS_EMULATOR_EMULATOR_H_
#define FOLIO_TESTS_EMULATOR_EMULATOR_H_

#include <cstdint>
#include <functional>

namespace folio::emulate {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

// The values of threadIdx and its like for the running thread.
struct Place {
  Index3 thread, block, block_size, grid_size;
};
inline constinit thread_local Place place;

inline constexpr unsigned kWarp = 32;

// Runs `thread` once for every thread of every block. With `overlaps` each thread must call
// WaitForEarlierKernels.
void RunGrid(Index3 grid, Index3 block, const std::function<void()>& thread, bool overlaps = false);

// For running threads. Returns once all threads of the block, or of the warp, have come here.
void BlockBarrier();
void WarpBarrier();
// Returns the number that `lane` of the same warp gave, once all lanes have come here.
uint64_t Exchange(uint64_t mine, unsigned lane);
// Returns a bit for each lane, set if that lane gave true.
uint32_t Ballot(bool mine);

// The instructions of kernels/cuda/device/tensor_core.cuh and overlap.cuh.
void MultiplyTiles(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4]);
void WaitForEarlierKernels();

// Orders this thread's memory for the threads of other ranks.
void Fence();

// Blocks run since the start; tests look whether anything ran.
uint64_t BlocksRun();

}  // namespace folio::emulate

#endif  // FOLIO_TESTS_EMULATOR_EMULATOR_H_
