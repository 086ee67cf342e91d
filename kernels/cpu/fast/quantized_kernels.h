// QuantizedTable is the set of single-threaded kernels for quantised weights that one instruction
// set brings to the fast family. It is filled from the templates of quantized.inl.h, and what
// kernels.h says about files that fill tables holds here too.
#ifndef FOLIO_KERNELS_CPU_FAST_QUANTIZED_KERNELS_H_
#define FOLIO_KERNELS_CPU_FAST_QUANTIZED_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/quantized_format.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

inline constexpr uint32_t kFormats = sizeof(kQuantizedFormats) / sizeof(kQuantizedFormats[0]);

// Quantised weights come in strips of as many columns (outputs) as a vector has lanes. A lane of 32
// bits holds four neighbours along k (a quad) of its column, which one instruction multiplies by
// four activations. A strip is a row of planes, each of which ascends along k. These are their
// places in bytes, multiples of 64, where blocks are of 32 values along k:
struct StripLayout {
  uint32_t scales = 0;         // [k / super][lanes] half-precision numbers
  uint32_t offset_scales = 0;  // likewise
  uint32_t steps = 0;          // [k / group][lanes] signed bytes
  uint32_t offsets = 0;        // likewise
  // Codes of 8 bits are [k / 32][8][lanes][4]. Others have their low four bits here,
  // [k / 32][4][lanes][4], those of quads 2 i in the low half of a byte and those of quads 2 i + 1
  // in the high one.
  uint32_t codes = 0;
  // Fifth bits [k / 32][lanes][4]: bit q is that of quad q. Fifth and sixth bits
  // [k / 32][2][lanes][4]: bits 2 q and 2 q + 1 are those of quad 4 i + q.
  uint32_t high = 0;
  uint32_t bytes = 0;  // of the strip
};

// 32 quantised activations of one row.
struct ActivationBlock {
  int8_t codes[kQuantizedBlock];
  float scale;          // NaN if an activation is not finite
  float minus_sum;      // -scale * the sum of the codes
  int32_t minus_codes;  // minus the sum of the codes
  int32_t minus_first;  // minus the sum of the first 16
};

// A strip times a group of 1, 2, 4 or 8 rows.
struct StripTile {
  const std::byte* strip;
  StripLayout at;
  uint32_t blocks;              // k / 32
  const ActivationBlock* rows;  // [blocks][rows of the group]
  float* out;                   // [rows of the group], out_stride; as many columns as lanes
  size_t out_stride;
};

// Some blocks of a strip as bf16: half of a part of a panel (kernels.h). The other half begins
// `lanes` words behind.
struct UnpackedStrip {
  const std::byte* strip;
  StripLayout at;
  uint32_t first;  // block
  uint32_t end;
  uint32_t* out;  // [blocks * 16][2 * lanes]
};

inline constexpr uint32_t kGroupSizes = 4;  // 2^i rows

struct QuantizedTable {
  uint32_t lanes;
  uint32_t group_sizes;  // the first so many of kGroupSizes
  // Quantises k values to blocks that are `stride` blocks apart.
  void (*quantize)(const bf16* in, uint32_t k, ActivationBlock* out, size_t stride);
  void (*multiply[kFormats][kGroupSizes])(const StripTile& tile);
  // For prompt rows, which have other kernels where bf16 arithmetic is fast. Null elsewhere.
  void (*unpack[kFormats])(const UnpackedStrip& strip);
};

const QuantizedTable& PortableQuantized();
#if defined(__x86_64__)
const QuantizedTable& Avx2Quantized();
const QuantizedTable& AvxVnniQuantized();
const QuantizedTable& Avx512Quantized();
const QuantizedTable& Avx512VnniQuantized();
const QuantizedTable& Avx512Bf16Quantized();  // has VNNI too, as all such CPUs
#endif

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_QUANTIZED_KERNELS_H_
