// The emulator itself: that it runs every thread, exchanges as a warp does, and notices what a GPU
// would punish.
#include "tests/emulator/emulator.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace folio::emulate {
namespace {

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<int> seen(3 * 2 * 2 * 96);
  const uint64_t before = BlocksRun();
  RunGrid({3, 2, 2}, {96, 1, 1}, [&] {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    ++seen[block * blockDim.x + threadIdx.x];
  });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(seen));
  EXPECT_EQ(BlocksRun() - before, 12);
}

TEST(Emulator, WarpsExchange) {
  std::vector<int> sums(64);
  std::vector<uint32_t> odd(64);
  RunGrid({}, {}, [] {});  // an empty grid runs nothing
  RunGrid({1, 1, 1}, {64, 1, 1}, [&] {
    int sum = static_cast<int>(threadIdx.x);
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
    sums[threadIdx.x] = sum + __shfl_up_sync(~0u, static_cast<int>(threadIdx.x), 1);
    odd[threadIdx.x] = __ballot_sync(~0u, threadIdx.x % 2 == 1);
  });
  for (int i = 0; i < 64; ++i) {
    const int sum = i < 32 ? 31 * 16 : 31 * 16 + 32 * 32;
    EXPECT_EQ(sums[i], sum + (i % 32 == 0 ? i : i - 1)) << i;
    EXPECT_EQ(odd[i], 0xaaaaaaaa);
  }
}

// Each thread reads what another wrote before the barrier.
TEST(Emulator, BarriersOrderABlock) {
  std::vector<int> got(256);
  RunGrid({4, 1, 1}, {256, 1, 1}, [&] {
    __shared__ int shared[256];
    shared[threadIdx.x] = static_cast<int>(threadIdx.x * (blockIdx.x + 1));
    __syncthreads();
    got[threadIdx.x] = shared[255 - threadIdx.x];
    __syncthreads();
  });
  for (int i = 0; i < 256; ++i) EXPECT_EQ(got[i], (255 - i) * 4);
}

#if defined(__SANITIZE_THREAD__)
// Lane 0 writes what the others have read before the vote. On a GPU they may read it after.
void ReadVoteWrite(bool barrier) {
  std::vector<int> seen(32);
  RunGrid({1, 1, 1}, {32, 1, 1}, [&] {
    __shared__ int shared;
    seen[threadIdx.x] = shared;
    if (barrier) __syncwarp();
    if (__ballot_sync(~0u, 1) != 0 && threadIdx.x == 0) shared = 7;
  });
}

TEST(EmulatorDeathTest, ALaneThatWritesWhatAnotherReadsIsReported) {
  constexpr int kRace = 66;  // ThreadSanitizer's exit code
  const auto run = [](bool barrier) {
    ReadVoteWrite(barrier);
    std::exit(0);
  };
  EXPECT_EXIT(run(false), testing::ExitedWithCode(kRace), "data race");
  EXPECT_EXIT(run(true), testing::ExitedWithCode(0), "");
}
#else
// The order of warps and of lanes is not always the same: what lacks a barrier is found out.
TEST(Emulator, AMissingBarrierShows) {
  int wrong = 0;
  RunGrid({50, 1, 1}, {64, 1, 1}, [&] {
    __shared__ unsigned last;
    last = threadIdx.x;
    if (threadIdx.x == 63 && last != 63) ++wrong;
    __syncthreads();
    if (threadIdx.x == 0) wrong += last != 63;
    __syncthreads();
  });
  EXPECT_GT(wrong, 10);
}
#endif

TEST(EmulatorDeathTest, SaysWhatIsWrong) {
  EXPECT_DEATH(RunGrid({1, 1, 1}, {64, 1, 1},
                       [] {
                         if (threadIdx.x < 7) __syncthreads();
                       }),
               "wait at a barrier that others never reach");
  EXPECT_DEATH(RunGrid({1, 1, 1}, {32, 1, 1},
                       [] {
                         if (threadIdx.x < 7) __shfl_sync(~0u, 1, 0);
                       }),
               "not all of its lanes reach");
  EXPECT_DEATH(RunGrid({1, 1, 1}, {40, 1, 1}, [] {}), "whole warps");
  EXPECT_DEATH(RunGrid(
                   {1, 1, 1}, {32, 1, 1},
                   [] {
                     if (threadIdx.x != 5) WaitForEarlierKernels();
                   },
                   /*overlaps=*/true),
               "has not waited for earlier kernels");
}

// Small numbers are exact, so that the order of a sum does not matter.
TEST(Emulator, MultipliesTiles) {
  float a[16][16];
  float b[16][8];
  float c[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) a[i][j] = static_cast<float>(i - 2 * j);
    for (int j = 0; j < 8; ++j) b[i][j] = static_cast<float>(3 * i - j);
    for (int j = 0; j < 8; ++j) c[i][j] = static_cast<float>(i * j);
  }
  const auto pair = [](float lower, float upper) {
    return __float_as_uint(lower) >> 16 | __float_as_uint(upper);
  };
  RunGrid({1, 1, 1}, {64, 1, 1}, [&] {
    const unsigned g = threadIdx.x % 32 / 4;
    const unsigned t = threadIdx.x % 4 * 2;
    float sums[4] = {};
    MultiplyTiles({pair(a[g][t], a[g][t + 1]), pair(a[g + 8][t], a[g + 8][t + 1]),
                   pair(a[g][t + 8], a[g][t + 9]), pair(a[g + 8][t + 8], a[g + 8][t + 9])},
                  {pair(b[t][g], b[t + 1][g]), pair(b[t + 8][g], b[t + 9][g])}, sums);
    if (threadIdx.x >= 32) return;
    for (unsigned i = 0; i < 4; ++i) c[g + i / 2 * 8][t + i % 2] += sums[i];
  });
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      float want = static_cast<float>(i * j);
      for (int k = 0; k < 16; ++k) want += a[i][k] * b[k][j];
      EXPECT_EQ(c[i][j], want) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace folio::emulate
