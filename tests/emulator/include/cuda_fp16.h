// This header is a stand-in for CUDA's header of this name.
#ifndef FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_FP16_H_
#define FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_FP16_H_

#include <bit>

struct __half {
  _Float16 value;
};
inline __half __float2half_rn(float x) { return {static_cast<_Float16>(x)}; }
inline float __half2float(__half x) { return static_cast<float>(x.value); }
inline unsigned short __half_as_ushort(__half x) { return std::bit_cast<unsigned short>(x.value); }
inline __half __ushort_as_half(unsigned short x) { return {std::bit_cast<_Float16>(x)}; }

#endif  // FOLIO_TESTS_EMULATOR_INCLUDE_CUDA_FP16_H_
