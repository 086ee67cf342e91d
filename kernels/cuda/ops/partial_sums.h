// This header has products that are computed in parts, and the kernel that adds the parts.
//
// A product of few rows has too few tiles of results to occupy a GPU. cuBLASLt then splits its sums
// and adds the parts in a kernel of its own, and a layer's residual and norm are one more kernel.
// Here Gemm::MultiplyInParts computes the parts, and one kernel adds them, adds the residual and
// takes the norm. Calls and errors are as in kernels/cuda/ops/ops.h.
#ifndef FOLIO_KERNELS_CUDA_OPS_PARTIAL_SUMS_H_
#define FOLIO_KERNELS_CUDA_OPS_PARTIAL_SUMS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

// The sums of a product in parts: part i, float32 [rows, cols], is of the i-th of `count` equal
// pieces of its terms. All parts lie behind each other without gaps.
struct PartialSums {
  float* data = nullptr;
  uint32_t count = 0;
  uint32_t rows = 0;
  uint32_t cols = 0;
};

// The most rows of a product in parts. Above it two tiles of rows occupy a GPU, and a product
// approaches the speed of the tensor cores.
inline constexpr uint32_t kMaxRowsInParts = 128;
inline constexpr uint32_t kMaxParts = 8;
// The longest rows that AddPartsRmsNorm serves. Longer ones have enough tiles.
inline constexpr uint32_t kMaxPartCols = 8192;

// In how many parts a product of `rows` rows by a weight [n, k] of 16-bit numbers is best computed
// on a GPU of so many multiprocessors, at most kMaxParts. 1 means that it is best computed whole.
uint32_t PartsOfProduct(uint32_t rows, uint32_t n, uint32_t k, uint32_t processors);

// hidden += the sum of all parts, which are added in their order, then out = hidden /
// sqrt(mean(hidden^2) + eps) * weight, as AddRmsNorm. hidden is float32 [parts.rows, cols]. cols
// and strides are multiples of 4. `out` is bf16 or fp16 of hidden's shape, and nothing is written
// to it if `weight` is null.
absl::Status AddPartsRmsNorm(Stream stream, PartialSums parts, Tensor hidden, const float* weight,
                             float eps, Tensor out);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_PARTIAL_SUMS_H_
