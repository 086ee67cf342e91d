// RunTile is one of FlashInfer's prefill kernels. A block takes kRows rows of queries (times heads
// of a group) of type __nv_bfloat16 or half. Each instance is compiled in a file of its own,
// because these files take the compiler longest.
#ifndef FOLIO_KERNELS_CUDA_ATTENTION_TILE_H_
#define FOLIO_KERNELS_CUDA_ATTENTION_TILE_H_

#include <cuda_runtime_api.h>

// FlashInfer's headers depend on this order.
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/variants.cuh>

namespace folio::kernels::cuda::attention {

template <typename Number>
using Params = flashinfer::BatchPrefillPagedParams<Number, Number, Number, int32_t>;

// Throws FlashInfer's exceptions.
template <typename Number, uint32_t kRows, uint32_t kHeadDim>
cudaError_t RunTile(const Params<Number>& params, Number* parts, float* sums, cudaStream_t stream);

}  // namespace folio::kernels::cuda::attention

#endif  // FOLIO_KERNELS_CUDA_ATTENTION_TILE_H_
