// This header has the activation of the feed-forward network. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_SWIGLU_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_SWIGLU_CUH_

#include <cuda_runtime.h>

namespace folio::kernels::cuda::device {

// silu(gate) * up. The GPU's own exponential and division are right to some units of the last place
// of float32, and results are rounded to 16 bits. The exact ones would take longer than memory
// does.
__device__ __forceinline__ float SwiGlu(float gate, float up) {
  return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_SWIGLU_CUH_
