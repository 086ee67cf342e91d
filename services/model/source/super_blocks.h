// The functions here turn one block of 256 values of each such format into floats, and the part of
// them that IQ4_NL has too. Others give the integers of blocks as they are. Their layouts are
// ggml's, and block_formats.h has the formulas.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_

#include <cstddef>

namespace folio::model {

// One of the eight pairs of six bits in the 12 bytes of Q4_K and Q5_K.
struct ScaleAndOffset {
  int scale, offset;
};
ScaleAndOffset SixBits(const std::byte* packed, size_t group);

// The code of value i of a block, from 0 to 63, and the step of a group, from -32 to 31.
int CodeOfQ6K(const std::byte* in, size_t i);
int StepOfIq4Xs(const std::byte* in, size_t group);

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
