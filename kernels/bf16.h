// bf16 is the storage type of weights and of the cache.
#ifndef FOLIO_KERNELS_BF16_H_
#define FOLIO_KERNELS_BF16_H_

#include <bit>
#include <cstdint>

namespace folio::kernels {

// Rounding is to nearest even, and NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;

  static bf16 Round(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
    u += 0x7fffu + ((u >> 16) & 1u);
    return {static_cast<uint16_t>(u >> 16)};
  }
  float ToFloat() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_BF16_H_
