// This header has sums and maxima over a warp or a block, in a fixed order. Device code in which
// all threads take part.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_REDUCE_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_REDUCE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace folio::kernels::cuda::device {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;

// All lanes get the result.
template <typename T>
__device__ __forceinline__ T WarpSum(T x) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}

template <typename T>
__device__ __forceinline__ T WarpMax(T x) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    x = max(x, __shfl_xor_sync(kAllLanes, x, lanes));
  }
  return x;
}

// All threads get the result. `scratch` has kThreads / 32 places and may be used again at once.
template <int kThreads, typename T>
__device__ __forceinline__ T BlockSum(T x, T* scratch) {
  constexpr int kWarps = kThreads / kWarp;
  x = WarpSum(x);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = x;
  __syncthreads();
  T sum = scratch[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) sum += scratch[warp];
  __syncthreads();
  return sum;
}

template <int kThreads, typename T>
__device__ __forceinline__ T BlockMax(T x, T* scratch) {
  constexpr int kWarps = kThreads / kWarp;
  x = WarpMax(x);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = x;
  __syncthreads();
  T most = scratch[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) most = max(most, scratch[warp]);
  __syncthreads();
  return most;
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_REDUCE_CUH_
