#include "kernels/cuda/attention/tile.inl.h"

template cudaError_t folio::kernels::cuda::attention::RunTile<128, 64>(const Params&, Number*,
                                                                       float*, cudaStream_t);
