// This header turns codes of E4M3 into packs of bf16, which holds each of their numbers exactly.
// Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_E4M3_PACKS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_E4M3_PACKS_CUH_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace folio::kernels::cuda::device {

// The numbers of two codes, each in the upper byte of a half. Exponent and mantissa of a code lie
// next to each other as those of bf16 do, and that number is 2^120 times too small. It may be
// subnormal, which products of bf16 serve. The codes of NaN would become 480, and models that have
// them are refused.
__device__ __forceinline__ uint32_t PairOfCodes(uint32_t codes) {
  const uint32_t bits = (codes & 0x80008000u) | ((codes >> 4) & 0x07f007f0u);
  constexpr uint32_t kScales = 0x7b807b80u;  // 2^120, twice
  const __nv_bfloat162 pair = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&bits),
                                      *reinterpret_cast<const __nv_bfloat162*>(&kScales));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// The first or the last eight of sixteen codes.
__device__ __forceinline__ uint4 PackOfCodes(const uint4& codes, int half) {
  const uint32_t first = half == 0 ? codes.x : codes.z;
  const uint32_t second = half == 0 ? codes.y : codes.w;
  // A byte of zeros below each code.
  return {PairOfCodes(__byte_perm(first, 0, 0x1404)), PairOfCodes(__byte_perm(first, 0, 0x3424)),
          PairOfCodes(__byte_perm(second, 0, 0x1404)), PairOfCodes(__byte_perm(second, 0, 0x3424))};
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_E4M3_PACKS_CUH_
