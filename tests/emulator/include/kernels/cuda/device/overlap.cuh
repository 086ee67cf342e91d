// This header is a stand-in for the device code of this name, which has instructions of the GPU.
// Emulated kernels never overlap. It is checked that those which could have waited.
#ifndef FOLIO_TESTS_EMULATOR_INCLUDE_KERNELS_CUDA_DEVICE_OVERLAP_CUH_
#define FOLIO_TESTS_EMULATOR_INCLUDE_KERNELS_CUDA_DEVICE_OVERLAP_CUH_

#include "tests/emulator/emulator.h"

namespace folio::kernels::cuda::device {

inline void WaitForEarlierKernels() { folio::emulate::WaitForEarlierKernels(); }
inline void LetNextKernelStart() {}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_TESTS_EMULATOR_INCLUDE_KERNELS_CUDA_DEVICE_OVERLAP_CUH_
