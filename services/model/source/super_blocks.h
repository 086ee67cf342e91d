// The functions here turn one block of 256 values of each such format into floats. Their layouts
// are ggml's, and block_formats.h has the formulas.
#ifndef FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_
#define FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_

#include <array>
#include <cstddef>

namespace folio::model {

// The values that the nibbles of IQ4_NL and IQ4_XS stand for.
inline constexpr std::array<float, 16> kUnevenSteps = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                       1,    13,   25,  38,  53,  69,  89,  113};

// `in` is a whole block, `out` has 256 places.
void DequantizeQ2K(const std::byte* in, float* out);
void DequantizeQ3K(const std::byte* in, float* out);
void DequantizeQ4K(const std::byte* in, float* out);
void DequantizeQ5K(const std::byte* in, float* out);
void DequantizeQ6K(const std::byte* in, float* out);
void DequantizeIq4Xs(const std::byte* in, float* out);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_SOURCE_SUPER_BLOCKS_H_
