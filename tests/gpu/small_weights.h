// SmallWeights is a random matrix in bf16 or E4M3, as products of few rows multiply it.
#ifndef FOLIO_TESTS_GPU_SMALL_WEIGHTS_H_
#define FOLIO_TESTS_GPU_SMALL_WEIGHTS_H_

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/types.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {

// Its bytes, and what rows of E4M3 are multiplied by.
struct SmallWeights {
  DataType type;
  size_t stride;
  std::vector<uint8_t> bytes;
  std::vector<float> scales;

  // Between the rows there is NaN, which must not be read.
  SmallWeights(DataType type, uint32_t rows, uint32_t cols, Random& random)
      : type(type), stride(PaddedStride(type, cols)), bytes(rows * stride * BytesOf(type), 0x7f) {
    std::uniform_int_distribution<int> code(0, 255);
    for (uint32_t row = 0; row < rows; ++row) {
      uint8_t* const at = bytes.data() + row * stride * BytesOf(type);
      if (type == DataType::kBf16) {
        const Stored some = RoundAll(type, RandomFloats(random, cols));
        std::memcpy(at, some.data(), cols * sizeof(uint16_t));
        continue;
      }
      scales.push_back(0.001f * static_cast<float>(1 + code(random) % 7));
      for (uint32_t col = 0; col < cols; ++col) {
        const auto bits = static_cast<uint8_t>(code(random));
        at[col] = std::isnan(e4m3{bits}.ToFloat()) ? 0x01 : bits;
      }
    }
  }

  double At(uint32_t row, uint32_t col) const {
    const uint8_t* const at = bytes.data() + (row * stride + col) * BytesOf(type);
    if (type == DataType::kE4M3) return double{e4m3{*at}.ToFloat()} * scales[row];
    uint16_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    return Value(type, bits);
  }
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_TESTS_GPU_SMALL_WEIGHTS_H_
