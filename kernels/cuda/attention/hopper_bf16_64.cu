#include "kernels/cuda/attention/hopper.inl.h"

namespace folio::kernels::cuda::attention {

template cudaError_t RunHopperTile<DataType::kBf16, 64>(const HopperCall&, cudaStream_t);

}  // namespace folio::kernels::cuda::attention
