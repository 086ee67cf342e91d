// This header has the activations of the feed-forward network (kernels::Activation). Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_GLU_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_GLU_CUH_

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

// The GPU's own exponential and division are right to some units of the last place of float32, and
// results are rounded to 16 bits. The exact ones would take longer than memory does.
struct Silu {
  static __device__ __forceinline__ float Of(float x) { return __fdividef(x, 1.0f + __expf(-x)); }
};

struct Gelu {
  static __device__ __forceinline__ float Of(float x) {
    return __fdividef(x, 1.0f + __expf(x * (-0.0713548163f * x * x - 1.5957691216f)));
  }
};

// Calls call(Silu()) or call(Gelu()).
template <typename Call>
absl::Status WithActivation(Activation activation, Call&& call) {
  return activation == Activation::kGelu ? call(Gelu()) : call(Silu());
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_GLU_CUH_
