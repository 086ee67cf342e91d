// KernelsOverlap says whether kernels may start while the kernel before them still runs
// (device/overlap.cuh).
#ifndef FOLIO_KERNELS_CUDA_OVERLAP_H_
#define FOLIO_KERNELS_CUDA_OVERLAP_H_

#include <cuda_runtime_api.h>

namespace folio::kernels::cuda {

// Asks the current device. The build has code of 9.0 or later for each such device, so that kernels
// that may overlap there do wait.
inline bool KernelsOverlap() {
  int device = 0;
  int major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major >= 9;
}

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OVERLAP_H_
