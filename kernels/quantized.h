// A QuantizedMatrix gives the rows of a matrix of quantised values, which may lie in a file, in a
// form that does not depend on the order of the file's bits.
#ifndef FOLIO_KERNELS_QUANTIZED_H_
#define FOLIO_KERNELS_QUANTIZED_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/quantized_format.h"

namespace folio::kernels {

// One row of k values. Vectors that the format has no use for are empty.
struct QuantizedRow {
  QuantizedRow(const QuantizedFormat& format, uint32_t k)
      : codes(k),
        scales(k / format.super),
        offset_scales(format.offsets ? k / format.super : 0),
        steps(format.steps ? k / format.group : 0),
        offsets(format.steps && format.offsets ? k / format.group : 0) {}

  std::vector<uint8_t> codes;           // [k]
  std::vector<uint16_t> scales;         // [k / super] half-precision numbers
  std::vector<uint16_t> offset_scales;  // [k / super] likewise
  std::vector<int8_t> steps, offsets;   // [k / group]
};

// A matrix [n, k] that gives its rows one by one, in any order. k is a whole number of the
// format's `super`, all scales are finite, and codes are below 2^bits. Any thread may read.
class QuantizedMatrix {
 public:
  virtual ~QuantizedMatrix() = default;
  virtual const QuantizedFormat& format() const = 0;  // one of kQuantizedFormats
  virtual uint32_t n() const = 0;
  virtual uint32_t k() const = 0;
  // `out` is made for this format and k.
  virtual void Read(uint32_t row, QuantizedRow& out) const = 0;
};

// The exponent is moved to its place, and a product with a power of two makes its bias right, also
// for numbers that have no exponent. Not for infinities and NaN.
inline float FiniteHalfToFloat(uint16_t half) {
  const float magnitude = std::bit_cast<float>(uint32_t{half & 0x7fffu} << 13) * 0x1p112f;
  return (half & 0x8000u) != 0 ? -magnitude : magnitude;
}

// (scale * step) and (offset_scale * offset) of a group.
struct GroupNumbers {
  float step = 0, offset = 0;
};
inline GroupNumbers NumbersOf(const QuantizedFormat& format, const QuantizedRow& row,
                              size_t group) {
  const size_t super = group * format.group / format.super;
  GroupNumbers numbers;
  numbers.step = FiniteHalfToFloat(row.scales[super]);
  if (format.steps) numbers.step *= static_cast<float>(row.steps[group]);
  if (!format.offsets) return numbers;
  numbers.offset = FiniteHalfToFloat(row.offset_scales[super]);
  if (format.steps) numbers.offset *= static_cast<float>(row.offsets[group]);
  return numbers;
}

// (code - zero).
inline int CodeValue(const QuantizedFormat& format, uint8_t code) {
  return (format.uneven ? kUnevenCodes[code] : code) - format.zero;
}

// out[i] is value i of the row, to the bit as its format defines it. out is [k].
inline void Dequantize(const QuantizedFormat& format, const QuantizedRow& row,
                       absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const GroupNumbers numbers = NumbersOf(format, row, i / format.group);
    const float value = numbers.step * static_cast<float>(CodeValue(format, row.codes[i]));
    out[i] = format.offsets ? value - numbers.offset : value;
  }
}

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_QUANTIZED_H_
