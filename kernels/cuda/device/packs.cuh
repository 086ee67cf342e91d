// This header has packs of eight neighbouring numbers in bf16, as lanes load them at once and
// tensor cores multiply them. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_PACKS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_PACKS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/tensor_core.cuh"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

// 16 bytes of numbers, and zeros unless they are `there`.
template <typename T>
__device__ __forceinline__ uint4 LoadPack(const T* from, bool there) {
  return there ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}

__device__ __forceinline__ uint32_t Pair(bf16 first, bf16 second) {
  return first.bits | uint32_t{second.bits} << 16;
}

__device__ __forceinline__ uint4 Pairs(const bf16 (&x)[8]) {
  return {Pair(x[0], x[1]), Pair(x[2], x[3]), Pair(x[4], x[5]), Pair(x[6], x[7])};
}

// Adds the products of a pack of each row. The order of a sum is free, so that a lane multiplies
// the numbers that it loads at once, wherever they would lie in the tiles of an instruction.
__device__ __forceinline__ void MultiplyPacks(const uint4& upper, const uint4& lower,
                                              const uint4& in, float (&sums)[4]) {
  MultiplyTiles({upper.x, lower.x, upper.y, lower.y}, {in.x, in.y}, sums);
  MultiplyTiles({upper.z, lower.z, upper.w, lower.w}, {in.z, in.w}, sums);
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_PACKS_CUH_
