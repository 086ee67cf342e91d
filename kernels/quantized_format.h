// QuantizedFormat says how a row of a matrix is quantised. It is what ggml's types of blocks have
// in common, apart from the order of their bits.
#ifndef FOLIO_KERNELS_QUANTIZED_FORMAT_H_
#define FOLIO_KERNELS_QUANTIZED_FORMAT_H_

#include <cstdint>

namespace folio::kernels {

inline constexpr uint32_t kQuantizedBlock = 32;  // values along k, the fewest of a format's block

// A block of activations below this is taken for zeros, because its scale would have no inverse.
inline constexpr float kLeastActivation = 1e-30f;

// A value of the row is
//   (scale * step) * (code - zero) - (offset_scale * offset)
// where scales are half-precision numbers of `super` neighbours, and steps and offsets are
// small integers of a group, or 1. Each operation rounds to float32.
struct QuantizedFormat {
  uint8_t bits = 4;      // of a code: 4, 5, 6 or 8
  uint8_t zero = 0;      // 0 or a power of two
  uint8_t group = 32;    // 16, or 32
  uint16_t super = 32;   // 32, or 256
  bool steps = false;    // the groups of a `super` have integers: 256 only
  bool offsets = false;  // groups of 32 with a zero of 0 alone
  bool uneven = false;   // codes of 4 bits stand for kUnevenCodes[code]
  friend bool operator==(const QuantizedFormat&, const QuantizedFormat&) = default;
};

// The values of IQ4_NL and IQ4_XS, plus 128.
inline constexpr uint8_t kUnevenCodes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                             129, 141, 153, 166, 181, 197, 217, 241};

// The formats that have kernels: a kernel's number is its format's place.
inline constexpr QuantizedFormat kQuantizedFormats[] = {
    {.bits = 4, .zero = 8},                                                 // Q4_0
    {.bits = 4, .offsets = true},                                           // Q4_1
    {.bits = 5, .zero = 16},                                                // Q5_0
    {.bits = 5, .offsets = true},                                           // Q5_1
    {.bits = 8, .zero = 128},                                               // Q8_0
    {.bits = 4, .zero = 128, .uneven = true},                               // IQ4_NL
    {.bits = 4, .super = 256, .steps = true, .offsets = true},              // Q4_K
    {.bits = 5, .super = 256, .steps = true, .offsets = true},              // Q5_K
    {.bits = 6, .zero = 32, .group = 16, .super = 256, .steps = true},      // Q6_K
    {.bits = 4, .zero = 128, .super = 256, .steps = true, .uneven = true},  // IQ4_XS
};

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_QUANTIZED_FORMAT_H_
