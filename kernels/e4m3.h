// This header has the eight-bit floating-point numbers of FP8 products, and the quantisation of a
// row of a matrix to them. Pure functions, for any thread.
//
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", arXiv 2209.05433, and the Open
// Compute Project's "8-bit Floating Point Specification (OFP8)", where the format is E4M3.
#ifndef FOLIO_KERNELS_E4M3_H_
#define FOLIO_KERNELS_E4M3_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/views.h"

namespace folio::kernels {

// One sign bit, four bits of exponent with a bias of 7, and three bits of mantissa. There are no
// infinities, and the codes 0x7f and 0xff are NaN. The largest number is 448, the smallest normal
// one 2^-6 and the smallest one above zero 2^-9.
struct e4m3 {
  static constexpr float kMax = 448;
  uint8_t bits = 0;

  // To nearest even. Larger numbers and infinities become the largest of their sign, and NaN stays
  // NaN. Twin of device::Store.
  static e4m3 Round(float value) {
    const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31 << 7;
    const float size = std::fabs(value);
    const float held = size < kMax ? size : kMax;
    const uint32_t u = std::bit_cast<uint32_t>(held);
    // Normal numbers lose 20 bits of mantissa. Below them all steps are 2^-9, as they are for
    // float32 from 2^14 on.
    const uint32_t normal = ((u + 0x7ffffu + ((u >> 20) & 1u)) >> 20) - ((127u - 7u) << 3);
    const uint32_t small = std::bit_cast<uint32_t>(held + 0x1p14f) - (141u << 23);
    const uint32_t code = held < 0x1p-6f ? small : normal;
    return {static_cast<uint8_t>(sign | (value != value ? 0x7fu : code))};
  }
  float ToFloat() const {
    if ((bits & 0x7fu) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
    // As a float32 the exponent is 120 too small.
    const float size = std::bit_cast<float>((bits & 0x7fu) << 20) * 0x1p120f;
    return bits >= 0x80 ? -size : size;
  }
};

// The least of the largest sizes that scales are made from, so that the inverse of a scale is
// finite. Rows that are all smaller become zeros.
inline constexpr float kLeastQuantized = 0x1p-100f;

// Writes the codes of row[0, count) and returns their scale, the row's largest size divided by 448,
// so that code * scale is about the number. The row is float or bf16. A NaN becomes NaN and does
// not count for the scale. Twin of cuda::QuantizeRows.
template <typename T>
float QuantizeRow(const T* row, size_t count, e4m3* codes) {
  const auto number = [row](size_t i) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return row[i];
    } else {
      return row[i].ToFloat();
    }
  };
  float most = kLeastQuantized;
  for (size_t i = 0; i < count; ++i) most = std::max(most, std::fabs(number(i)));
  const float inverse = e4m3::kMax / most;
  for (size_t i = 0; i < count; ++i) codes[i] = e4m3::Round(number(i) * inverse);
  return most / e4m3::kMax;
}

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_E4M3_H_
