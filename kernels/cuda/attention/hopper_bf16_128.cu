#include "kernels/cuda/attention/hopper.inl.h"

namespace folio::kernels::cuda::attention {

template cudaError_t RunHopperTile<DataType::kBf16, 128>(const HopperCall&, cudaStream_t);

}  // namespace folio::kernels::cuda::attention
