#include "kernels/cuda/attention/tile.inl.h"

template cudaError_t folio::kernels::cuda::attention::RunTile<half, 16, 256>(const Params<half>&,
                                                                             half*, float*,
                                                                             cudaStream_t);
