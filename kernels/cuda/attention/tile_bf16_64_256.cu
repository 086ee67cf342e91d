#include "kernels/cuda/attention/tile.inl.h"

template cudaError_t folio::kernels::cuda::attention::RunTile<__nv_bfloat16, 64, 256>(
    const Params<__nv_bfloat16>&, __nv_bfloat16*, float*, cudaStream_t);
