// PaddedRows is the number of rows that a decode step is padded to. Padding gives steps few shapes,
// because each shape needs a graph, and an algorithm for each product, of its own.
#ifndef FOLIO_SERVICES_MODEL_CUDA_DECODE_SHAPES_H_
#define FOLIO_SERVICES_MODEL_CUDA_DECODE_SHAPES_H_

#include <algorithm>
#include <cstdint>

namespace folio::model {

// Larger batches are not padded: launch overhead is negligible for them.
inline constexpr uint32_t kMaxPaddedRows = 512;

// The least of 1, 2, 4, 8, 16, 24, ... 128, 160, ... kMaxPaddedRows that holds `rows`, and at most
// `max_rows`. Tensor cores multiply eight rows as fast as one. Above 128 at most a fifth of the
// rows is padding.
constexpr uint32_t PaddedRows(uint32_t rows, uint32_t max_rows) {
  if (rows == 0 || rows > kMaxPaddedRows) return rows;
  uint32_t padded = 1;
  while (padded < rows && padded < 8) padded *= 2;
  if (rows > 8) {
    const uint32_t multiple = rows <= 128 ? 8 : 32;
    padded = (rows + multiple - 1) / multiple * multiple;
  }
  return std::max(rows, std::min(padded, max_rows));
}

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_DECODE_SHAPES_H_
