// How many rows decode steps are padded to, so that they have few shapes: a graph is of one shape,
// and so is the algorithm that multiplies it.
#ifndef FOLIO_SERVICES_MODEL_DECODE_SHAPES_H_
#define FOLIO_SERVICES_MODEL_DECODE_SHAPES_H_

#include <algorithm>
#include <cstdint>

namespace folio::model {

// Larger steps are as they are: what the host saves by a graph is nothing of what they take.
inline constexpr uint32_t kMostPaddedRows = 512;

// The least of 1, 2, 4, 8, 16, 24, ... 128, 160, ... kMostPaddedRows that holds `rows`, and at most
// `max_rows`. Tensor cores multiply eight rows as fast as one; above 128 a fifth of the rows is
// padding at most.
constexpr uint32_t PaddedRows(uint32_t rows, uint32_t max_rows) {
  if (rows == 0 || rows > kMostPaddedRows) return rows;
  uint32_t padded = 1;
  while (padded < rows && padded < 8) padded *= 2;
  if (rows > 8) {
    const uint32_t multiple = rows <= 128 ? 8 : 32;
    padded = (rows + multiple - 1) / multiple * multiple;
  }
  return std::max(rows, std::min(padded, max_rows));
}

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_DECODE_SHAPES_H_
