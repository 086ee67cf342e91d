// This file stands for the Hopper kernels in builds without code for 9.0 alone.
#include "kernels/cuda/attention/hopper.h"

namespace folio::kernels::cuda::attention {

HopperKernel* FindHopperKernel(DataType, uint32_t) { return nullptr; }

}  // namespace folio::kernels::cuda::attention
