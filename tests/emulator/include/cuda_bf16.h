// This header is a stand-in for CUDA's header of this name.
#ifndef FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_BF16_H_
#define FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_BF16_H_

#include "kernels/views.h"

struct __nv_bfloat16 {
  folio::kernels::bf16 value;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {folio::kernels::bf16::Round(x)}; }
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {__float2bfloat16_rn(a.x.value.ToFloat() - b.x.value.ToFloat()),
          __float2bfloat16_rn(a.y.value.ToFloat() - b.y.value.ToFloat())};
}
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {__float2bfloat16_rn(a.x.value.ToFloat() * b.x.value.ToFloat()),
          __float2bfloat16_rn(a.y.value.ToFloat() * b.y.value.ToFloat())};
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.value.bits; }

#endif  // FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_BF16_H_
