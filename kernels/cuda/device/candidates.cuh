// This header orders the tokens of one row by likelihood without sorting them. A token's rank is a
// number, and a filter is a smallest rank that is found by counting digits, as in a radix sort.
// Device code for blocks of kThreads.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_CANDIDATES_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_CANDIDATES_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/reduce.cuh"

namespace folio::kernels::cuda::device {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / kWarp;
inline constexpr uint32_t kIdBits = 18;
inline constexpr uint32_t kDigitBits = 10;
inline constexpr uint32_t kDigits = 1 << kDigitBits;
inline constexpr double kWeightOne = 17592186044416.0;  // 2^44

// Greater for the likelier token, which has the higher logit or, on a tie, the lower id. Ranks of
// two tokens are never equal.
__device__ __forceinline__ uint64_t Rank(float logit, uint32_t id) {
  const uint32_t bits = __float_as_uint(logit == 0 ? 0.0f : logit);  // -0 is 0
  const uint32_t order = bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u);
  return (uint64_t{order} << kIdBits) | ((1u << kIdBits) - 1 - id);
}
__device__ __forceinline__ uint32_t IdOf(uint64_t rank) {
  return (1u << kIdBits) - 1 - (static_cast<uint32_t>(rank) & ((1u << kIdBits) - 1));
}

// One row's candidates: those that temperature and min_p leave, of rank `least` and above.
struct Candidates {
  const float* logits;
  uint32_t vocab;
  double most;     // the highest logit
  double inverse;  // of the temperature
  double lowest;   // least exponent
  uint64_t least;

  // 0 for tokens that are filtered out, and for tokens that are too unlikely ever to be drawn.
  __device__ __forceinline__ uint64_t weight(uint32_t id) const {
    const double exponent = (static_cast<double>(logits[id]) - most) * inverse;
    constexpr double kSmallest = -31.2;  // below half of 2^-44
    if (exponent < lowest || exponent < kSmallest || Rank(logits[id], id) < least) return 0;
    return static_cast<uint64_t>(exp(exponent) * kWeightOne + 0.5);
  }
  // True if the filters so far leave the token.
  __device__ __forceinline__ uint64_t one(uint32_t id) const {
    return (static_cast<double>(logits[id]) - most) * inverse < lowest ? 0 : 1;
  }
};

// The shared memory of a block while it chooses.
struct Choosing {
  unsigned long long digits[kDigits];
  uint64_t sums[kSampleWarps];
  uint64_t prefix, above;
  bool all;
};

// Finds the digit at which the sum, from the greatest digit down, reaches `wanted`. One warp.
__device__ __forceinline__ void FindDigit(uint64_t wanted, Choosing& shared) {
  constexpr uint32_t kEach = kDigits / kWarp;
  const uint32_t lane = threadIdx.x;
  const uint32_t first = kDigits - 1 - lane * kEach;  // and down from there
  uint64_t mine = 0;
  for (uint32_t i = 0; i < kEach; ++i) mine += shared.digits[first - i];
  uint64_t before = mine;  // becomes the sum of this lane's and all greater digits
  for (uint32_t lanes = 1; lanes < kWarp; lanes *= 2) {
    const uint64_t other = __shfl_up_sync(kAllLanes, before, lanes);
    if (lane >= lanes) before += other;
  }
  before += shared.above;
  // One lane writes `above` below, and a vote does not order memory: without this barrier it could
  // write before a slower lane has read.
  __syncwarp();
  const uint32_t reached = __ballot_sync(kAllLanes, before >= wanted);
  if (reached == 0) {
    if (lane == 0) shared.all = true;
    return;
  }
  if (lane != static_cast<uint32_t>(__ffs(static_cast<int>(reached)) - 1)) return;
  uint64_t above = before - mine;
  uint32_t digit = first;
  while (above + shared.digits[digit] < wanted) above += shared.digits[digit--];
  shared.above = above;
  shared.prefix = (shared.prefix << kDigitBits) | digit;
}

// The greatest rank r such that the numbers of all tokens ranked r and above add up to `wanted`, or
// 0 if the sum of all is smaller. `number(id)` is a token's number.
template <typename Number>
__device__ __forceinline__ uint64_t LeastRank(const Candidates& of, uint64_t wanted,
                                              const Number& number, Choosing& shared) {
  constexpr int kRankBits = 32 + kIdBits;
  static_assert(kRankBits % kDigitBits == 0);
  if (threadIdx.x == 0) {
    shared.prefix = 0;
    shared.above = 0;
    shared.all = false;
  }
  for (int shift = kRankBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (uint32_t i = threadIdx.x; i < kDigits; i += kSampleThreads) shared.digits[i] = 0;
    __syncthreads();
    // Neighbours often have the same digit, so they are added up before they go to memory.
    uint32_t digit = 0;
    unsigned long long sum = 0;
    for (uint32_t id = threadIdx.x; id < of.vocab; id += kSampleThreads) {
      const uint64_t rank = Rank(of.logits[id], id) >> shift;
      if (rank >> kDigitBits != shared.prefix) continue;
      const auto here = static_cast<uint32_t>(rank) % kDigits;
      if (here != digit && sum != 0) {
        atomicAdd(&shared.digits[digit], sum);
        sum = 0;
      }
      digit = here;
      sum += number(id);
    }
    if (sum != 0) atomicAdd(&shared.digits[digit], sum);
    __syncthreads();
    if (threadIdx.x < kWarp) FindDigit(wanted, shared);
    __syncthreads();
    if (shared.all) break;
  }
  const uint64_t least = shared.all ? 0 : shared.prefix;
  __syncthreads();
  return least;
}

// Each warp's ids, one range after another.
__device__ __forceinline__ uint32_t WarpIds(uint32_t vocab) {
  return (vocab + kSampleThreads - 1) / kSampleThreads * kWarp;
}

// Weights of all candidates; leaves each warp's in `shared.sums`.
__device__ __forceinline__ uint64_t TotalWeight(const Candidates& of, Choosing& shared) {
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t ids = WarpIds(of.vocab);
  uint64_t sum = 0;
  for (uint32_t i = threadIdx.x % kWarp; i < ids; i += kWarp) {
    const uint32_t id = warp * ids + i;
    if (id < of.vocab) sum += of.weight(id);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) shared.sums[warp] = sum;
  __syncthreads();
  uint64_t total = 0;
  for (int i = 0; i < kSampleWarps; ++i) total += shared.sums[i];
  return total;
}

// Finds the token at `point` of the candidates' weights in the order of their ids. The warp whose
// range contains it writes it. TotalWeight must have run before.
__device__ __forceinline__ void Draw(const Candidates& of, uint64_t point, const Choosing& shared,
                                     uint32_t& token) {
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  uint64_t before = 0;
  for (uint32_t i = 0; i < warp; ++i) before += shared.sums[i];
  if (point < before || point >= before + shared.sums[warp]) return;
  const uint32_t ids = WarpIds(of.vocab);
  for (uint32_t i = 0; i < ids; i += kWarp) {
    const uint32_t id = warp * ids + i + lane;
    uint64_t upto = id < of.vocab ? of.weight(id) : 0;
    for (uint32_t lanes = 1; lanes < kWarp; lanes *= 2) {
      const uint64_t other = __shfl_up_sync(kAllLanes, upto, lanes);
      if (lane >= lanes) upto += other;
    }
    const uint32_t past = __ballot_sync(kAllLanes, before + upto > point);
    if (past != 0) {
      if (lane == static_cast<uint32_t>(__ffs(static_cast<int>(past)) - 1)) token = id;
      return;
    }
    before += __shfl_sync(kAllLanes, upto, kWarp - 1);
  }
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_CANDIDATES_CUH_
