// This header chooses whether a kernel moves its numbers in packs. Host code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_WIDTHS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_WIDTHS_CUH_

#include <cstddef>
#include <type_traits>

#include "absl/status/status.h"

namespace folio::kernels::cuda::device {

template <int kWidth>
using Width = std::integral_constant<int, kWidth>;

// Rows that are whole packs are moved in packs.
template <int kWidth, typename Call>
absl::Status WithWidth(bool packs, Call&& call) {
  return packs ? call(Width<kWidth>()) : call(Width<1>());
}

template <typename... Numbers>
bool AllDivisible(size_t by, Numbers... numbers) {
  return ((numbers % by == 0) && ...);
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_WIDTHS_CUH_
