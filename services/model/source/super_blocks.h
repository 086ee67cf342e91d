// The functions here turn one block of 256 values of each such format into floats, and the part of
// them that IQ4_NL has too. Their layouts are ggml's, and block_formats.h has the formulas.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_

#include <cstddef>

namespace folio::model {

// 32 values of IQ4_NL or IQ4_XS, in 16 bytes of nibbles: scale * table[q].
void DequantizeUnevenSteps(const std::byte* nibbles, float scale, float* out);

// `in` is a whole block, `out` has 256 places.
void DequantizeQ2K(const std::byte* in, float* out);
void DequantizeQ3K(const std::byte* in, float* out);
void DequantizeQ4K(const std::byte* in, float* out);
void DequantizeQ5K(const std::byte* in, float* out);
void DequantizeQ6K(const std::byte* in, float* out);
void DequantizeIq4Xs(const std::byte* in, float* out);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_
