// This header has what a warp does to store a token: it rotates keys and queries by their position,
// stores a key and a value in their page, and computes the token's score. Device code in which all
// lanes of a warp take part.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_APPEND_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_APPEND_CUH_

#include <cuda_runtime.h>

#include <cfloat>

#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/pages.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

// Neighbouring pairs that a lane rotates, so that a warp rotates a head of 128 at once.
inline constexpr int kEach = 2;

// Rotates pairs of numbers. Rounds after each operation, as the CPU does, so that both store the
// same bits.
template <int kCount, typename T>
__device__ __forceinline__ void RotatePairs(const float (&a)[kCount], const float (&b)[kCount],
                                            const float (&cos)[kCount], const float (&sin)[kCount],
                                            Pack<T, kCount>& first, Pack<T, kCount>& second) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    Store(__fsub_rn(__fmul_rn(a[i], cos[i]), __fmul_rn(b[i], sin[i])), first.at[i]);
    Store(__fadd_rn(__fmul_rn(b[i], cos[i]), __fmul_rn(a[i], sin[i])), second.at[i]);
  }
}

// Rotates one head's vector by its position, in pairs (i, i + dim / 2). Returns the squares of this
// lane's results.
template <typename In, typename T>
__device__ __forceinline__ float Rotate(const In* in, const float* cos, const float* sin,
                                        uint32_t half, T* out) {
  float squares = 0;
  for (uint32_t i = threadIdx.x % kWarp * kEach; i < half; i += kWarp * kEach) {
    float a[kEach], b[kEach], c[kEach], s[kEach];
    Load(in + i, a);
    Load(in + i + half, b);
    Load(cos + i, c);
    Load(sin + i, s);
    Pack<T, kEach> first, second;
    RotatePairs(a, b, c, s, first, second);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      squares += ToFloat(first.at[k]) * ToFloat(first.at[k]) +
                 ToFloat(second.at[k]) * ToFloat(second.at[k]);
    }
    *reinterpret_cast<Pack<T, kEach>*>(out + i) = first;
    *reinterpret_cast<Pack<T, kEach>*>(out + i + half) = second;
  }
  return squares;
}

template <typename In, typename T>
__device__ __forceinline__ float Copy(const In* in, uint32_t dim, T* out) {
  float squares = 0;
  for (uint32_t i = threadIdx.x % kWarp * 2 * kEach; i < dim; i += kWarp * 2 * kEach) {
    float x[2 * kEach];
    Load(in + i, x);
    Pack<T, 2 * kEach> stored;
#pragma unroll
    for (int k = 0; k < 2 * kEach; ++k) {
      Store(x[k], stored.at[k]);
      squares += ToFloat(stored.at[k]) * ToFloat(stored.at[k]);
    }
    *reinterpret_cast<Pack<T, 2 * kEach>*>(out + i) = stored;
  }
  return squares;
}

// The kinds that AppendScore computes. Device code cannot read the table of kinds, which is the
// host's, so the compiler compares the two.
constexpr bool IsAppended(ScoreKind kind) {
  return kind == ScoreKind::kNormRatio || kind == ScoreKind::kInverseKeyNorm ||
         kind == ScoreKind::kValueNorm;
}
constexpr bool IsAppendedAgreesWithTable() {
  for (const ScoreTraits& traits : kScoreKinds) {
    if (IsAppended(traits.kind) != WrittenAtAppend(traits.kind)) return false;
  }
  return true;
}
static_assert(IsAppendedAgreesWithTable());

__device__ __forceinline__ float AppendScore(ScoreKind kind, float key, float value) {
  if (kind == ScoreKind::kValueNorm) return value;
  const float of = kind == ScoreKind::kNormRatio ? value : 1.0f;
  if (key == 0) return of == 0 ? 0 : FLT_MAX;
  return of / key;
}

// Stores one KV head of a token. `cos` and `sin` are those of its position. Returns its score, if
// its kind is computed here.
template <typename In, typename T>
__device__ __forceinline__ float AppendHead(const In* key, const In* value, const float* cos,
                                            const float* sin, const AppendSlot& slot, uint32_t head,
                                            const Pages<T>& pages) {
  T* const stored = pages.key(slot.page, head, slot.offset);
  const float keys = WarpSum(Rotate(key, cos, sin, pages.head_dim / 2, stored));
  const float values =
      WarpSum(Copy(value, pages.head_dim, pages.value(slot.page, head, slot.offset)));
  return AppendScore(slot.score, sqrtf(keys), sqrtf(values));
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_APPEND_CUH_
