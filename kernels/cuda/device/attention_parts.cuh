// This header adds the results of attention over parts of a context: those of a block's warps, and
// those of the blocks that share a context. Device code in which all threads of a block take part.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_ATTENTION_PARTS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_ATTENTION_PARTS_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/device/attention_state.cuh"
#include "kernels/cuda/device/reduce.cuh"

namespace folio::kernels::cuda::device {

// Warps of a block.
inline constexpr uint32_t kAttentionWarps = 4;
// Blocks that share a context, at most.
inline constexpr uint32_t kMostSplits = 32;

// The factors of parts in their sum, and the state of the sum, by query heads.
struct Shares {
  float of[kMostGroup][kMostSplits];
  float most[kMostGroup];
  float weights[kMostGroup];
};

// Numbers of a part that a warp of this block has stored, or another block, whose numbers are not
// looked for in the multiprocessor's own cache.
template <bool kOfBlocks, typename Number>
__device__ __forceinline__ Number LoadNumber(const float* from) {
  const auto* numbers = reinterpret_cast<const Number*>(from);
  if constexpr (kOfBlocks) return __ldcg(numbers);
  return *numbers;
}

// A warp computes the shares of a query head, and a lane those of a part. All threads take part.
template <bool kOfBlocks, int kHeadDim>
__device__ __forceinline__ void FindShares(const Part<kHeadDim>* parts, uint32_t count,
                                           uint32_t group, Shares& shares) {
  static_assert(kAttentionWarps <= kWarp && kMostSplits <= kWarp);
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t head = threadIdx.x / kWarp; head < group; head += kAttentionWarps) {
    float most = kNoScore;
    float weights = 0;
    if (lane < count) {
      most = LoadNumber<kOfBlocks, float>(&parts[lane].most[head]);
      weights = LoadNumber<kOfBlocks, float>(&parts[lane].weights[head]);
    }
    const float largest = WarpMax(most);
    const float share = exp2f(most - largest);
    const float sum = WarpSum(weights * share);
    if (lane < count) shares.of[head][lane] = share;
    if (lane == 0) {
      shares.most[head] = largest;
      shares.weights[head] = sum;
    }
  }
  __syncthreads();
}

// Adds the parts of a block's warps, or those of the blocks that share a context. Calls put(head,
// i, sums) for each four numbers of each query head. Several parts are loaded at once, and the
// first of them before their shares are known, because each wait for memory takes as long as all
// else.
template <bool kOfBlocks, int kHeadDim, typename Put>
__device__ __forceinline__ void AddParts(const Part<kHeadDim>* parts, uint32_t count,
                                         uint32_t group, Shares& shares, const Put& put) {
  constexpr uint32_t kAtOnce = kOfBlocks ? 8 : kAttentionWarps;
  float4 values[kAtOnce];
  const auto load = [&](uint32_t number, uint32_t part) {
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const float* of = parts[min(part + i, count - 1)].values[number / kHeadDim];
      values[i] = LoadNumber<kOfBlocks, float4>(of + number % kHeadDim);
    }
  };
  const uint32_t first = 4 * threadIdx.x;
  if (first < group * kHeadDim) load(first, 0);
  FindShares<kOfBlocks>(parts, count, group, shares);
  for (uint32_t number = first; number < group * kHeadDim; number += 4 * kAttentionWarps * kWarp) {
    const uint32_t head = number / kHeadDim;
    float sums[4] = {};
    for (uint32_t part = 0; part < count; part += kAtOnce) {
      if (number > first || part > 0) load(number, part);
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const float share = part + i < count ? shares.of[head][part + i] : 0.0f;
        sums[0] += values[i].x * share;
        sums[1] += values[i].y * share;
        sums[2] += values[i].z * share;
        sums[3] += values[i].w * share;
      }
    }
    put(head, number % kHeadDim, sums);
  }
}

// Whether all other blocks of the context have stored their parts. All threads take part.
__device__ __forceinline__ bool IsLast(uint32_t* counter, uint32_t blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_ATTENTION_PARTS_CUH_
