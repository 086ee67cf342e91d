// This file defines RunTile for the files that instantiate it.
#ifndef FOLIO_KERNELS_CUDA_ATTENTION_TILE_INL_H_
#define FOLIO_KERNELS_CUDA_ATTENTION_TILE_INL_H_

#include <flashinfer/attention/prefill.cuh>

#include "kernels/cuda/attention/tile.h"
#include "kernels/cuda/overlap.h"

namespace folio::kernels::cuda::attention {

// Plain softmax, without a mask of our own, a cap or slopes. Keys are stored rotated. All instances
// know windows, because tiles without an edge of a window or of the causal mask test no token.
using Variant = flashinfer::DefaultAttention</*mask=*/false, /*window=*/true, /*cap=*/false,
                                             /*slopes=*/false>;

template <typename Number, uint32_t kRows, uint32_t kHeadDim>
cudaError_t RunTile(const Params<Number>& params, Number* parts, float* sums, cudaStream_t stream) {
  // Scores are float32 whatever the numbers are.
  constexpr bool kHalfPrecisionScores = false;
  return flashinfer::BatchPrefillWithPagedKVCacheDispatched<
      kRows, kHeadDim, kHeadDim, flashinfer::PosEncodingMode::kNone, kHalfPrecisionScores,
      flashinfer::MaskMode::kCausal, Variant, Params<Number>>(params, parts, sums, KernelsOverlap(),
                                                              stream);
}

}  // namespace folio::kernels::cuda::attention

#endif  // FOLIO_KERNELS_CUDA_ATTENTION_TILE_INL_H_
