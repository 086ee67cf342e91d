// This header is a stand-in for the device code of this name, which is an instruction of the GPU.
#ifndef FOLIO_TESTS_EMULATOR_INCLUDE_KERNELS_CUDA_DEVICE_TENSOR_CORE_CUH_
#define FOLIO_TESTS_EMULATOR_INCLUDE_KERNELS_CUDA_DEVICE_TENSOR_CORE_CUH_

#include <cstdint>

#include "tests/emulator/emulator.h"

namespace folio::kernels::cuda::device {

inline void MultiplyTiles(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4]) {
  folio::emulate::MultiplyTiles(a, b, c);
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_TESTS_EMULATOR_INCLUDE_KERNELS_CUDA_DEVICE_TENSOR_CORE_CUH_
