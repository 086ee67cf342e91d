#include "kernels/cuda/attention/tile.inl.h"

template cudaError_t folio::kernels::cuda::attention::RunTile<16, 128>(const Params&, Number*,
                                                                       float*, cudaStream_t);
