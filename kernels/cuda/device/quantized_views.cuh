// This header finds the areas of a part of a quantised matrix, and chooses an instance of a kernel
// by how its codes are stored. Host code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_QUANTIZED_VIEWS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_QUANTIZED_VIEWS_CUH_

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "kernels/cuda/device/quantized_cells.cuh"
#include "kernels/cuda/quantized_matrix.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

inline QuantizedView ViewOf(const QuantizedPart& part, uint32_t cols) {
  const QuantizedAreas areas(part.format, part.rows, cols);
  const auto at = [&](size_t offset) {
    return reinterpret_cast<const uint32_t*>(part.data + offset);
  };
  QuantizedView view{};
  view.codes = reinterpret_cast<const uint4*>(part.data);
  view.planes = at(areas.planes);
  view.numbers = at(areas.numbers);
  view.supers = at(areas.supers);
  view.outputs = part.rows;
  view.cells = areas.cells;
  view.number_words = areas.number_words;
  view.super_words = areas.super_words;
  view.zeros = 0x43004300u + part.format.zero * 0x00010001u;
  view.steps = part.format.steps;
  view.offsets = part.format.offsets;
  return view;
}

// Calls call(Codes<...>()).
template <typename Call>
absl::Status WithCodes(const QuantizedFormat& format, Call&& call) {
  if (format.uneven) return call(Codes<4, true>());
  if (format.bits == 4) return call(Codes<4, false>());
  if (format.bits == 5) return call(Codes<5, false>());
  if (format.bits == 6) return call(Codes<6, false>());
  return call(Codes<8, false>());
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_QUANTIZED_VIEWS_CUH_
