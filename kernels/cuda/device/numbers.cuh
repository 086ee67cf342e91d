// This header converts numbers between the stored types and float32. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_NUMBERS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_NUMBERS_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(bf16 x) { return __uint_as_float(uint32_t{x.bits} << 16); }
__device__ __forceinline__ float ToFloat(fp16 x) { return __half2float(__ushort_as_half(x.bits)); }
// See e4m3::ToFloat.
__device__ __forceinline__ float ToFloat(e4m3 x) {
  const float size = __uint_as_float((x.bits & 0x7fu) << 20) * 0x1p120f;
  const uint32_t sign = static_cast<uint32_t>(x.bits >> 7) << 31;
  const bool nan = (x.bits & 0x7fu) == 0x7f;
  return __uint_as_float(nan ? 0x7fffffffu : __float_as_uint(size) | sign);
}

// To nearest even.
__device__ __forceinline__ void Store(float x, float& to) { to = x; }
__device__ __forceinline__ void Store(float x, bf16& to) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ __forceinline__ void Store(float x, fp16& to) {
  to.bits = __half_as_ushort(__float2half_rn(x));
}
// Twin of e4m3::Round. Conversions by the GPU itself begin with compute capability 8.9, and bits
// would then depend on the GPU.
__device__ __forceinline__ void Store(float x, e4m3& to) {
  const uint32_t sign = __float_as_uint(x) >> 31 << 7;
  const float size = fabsf(x);
  const float most = e4m3::kMax;
  const float held = size < most ? size : most;
  const uint32_t u = __float_as_uint(held);
  const uint32_t normal = ((u + 0x7ffffu + ((u >> 20) & 1u)) >> 20) - ((127u - 7u) << 3);
  const uint32_t small = __float_as_uint(__fadd_rn(held, 0x1p14f)) - (141u << 23);
  const uint32_t code = held < 0x1p-6f ? small : normal;
  to.bits = static_cast<uint8_t>(sign | (x != x ? 0x7fu : code));
}

// N neighbouring numbers, which are moved by one instruction if they fit into 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

template <int N, typename T>
__device__ __forceinline__ void Load(const T* from, float (&to)[N]) {
  const auto pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = ToFloat(pack.at[i]);
}

template <int N, typename T>
__device__ __forceinline__ void StoreAll(const float (&from)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) Store(from[i], pack.at[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_NUMBERS_CUH_
