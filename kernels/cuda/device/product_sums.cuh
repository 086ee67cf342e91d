// This header adds the parts of sums that the warps of a block have computed for a tile of 16
// outputs, and gives the sums to what follows a product. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_SUMS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_SUMS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/product_operands.cuh"
#include "kernels/cuda/device/reduce.cuh"

namespace folio::kernels::cuda::device {

// Rows that tensor cores multiply at once.
inline constexpr uint32_t kTileRows = 8;

// The sums of all warps, in the form in which lanes hold them, and of the squares of rows.
template <int kWarps, int kTiles>
struct Parts {
  float sums[kWarps][kTiles][4][kWarp];
  float squares[kWarps][kTileRows];
};

// Puts this warp's sums where PutResults finds them.
template <typename Input, int kWarps, int kTiles>
__device__ __forceinline__ void PutParts(const float (&sums)[kTiles][4], float squares,
                                         Parts<kWarps, kTiles>& parts) {
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) parts.sums[warp][i / 4][i % 4][lane] = sums[i / 4][i % 4];
  if constexpr (Input::kNormed) {
    // The four lanes of a row.
    squares += __shfl_xor_sync(kAllLanes, squares, 1);
    squares += __shfl_xor_sync(kAllLanes, squares, 2);
    if (lane % 4 == 0) parts.squares[warp][lane / 4] = squares;
  }
}

// Adds the warps' parts of each result, in their order. The tile begins with the output `first` of
// `outputs`. `result` takes the sums of one output, or of a gate and its up, for one row.
template <typename Input, typename Result, int kWarps, int kTiles>
__device__ __forceinline__ void PutResults(const Input& in, const Parts<kWarps, kTiles>& parts,
                                           uint32_t first, uint32_t outputs, const Result& result) {
  for (uint32_t i = threadIdx.x; i < kTileOutputs * in.count; i += kWarps * kWarp) {
    const uint32_t row = i / kTileOutputs;
    const uint32_t output = i % kTileOutputs;
    if (first + output >= outputs) continue;
    float scale = 1;
    if constexpr (Input::kNormed) {
      float sum = 0;
      for (uint32_t warp = 0; warp < kWarps; ++warp) sum += parts.squares[warp][row];
      scale = 1.0f / sqrtf(sum / static_cast<float>(in.cols) + in.eps);
    }
    // See MultiplyTiles for the place of a sum.
    const uint32_t number = output / 8 * 2 + row % 2;
    const uint32_t lane = output % 8 * 4 + row / 2;
    float totals[kTiles];
    for (int tile = 0; tile < kTiles; ++tile) {
      float sum = 0;
      for (uint32_t warp = 0; warp < kWarps; ++warp) sum += parts.sums[warp][tile][number][lane];
      totals[tile] = sum * scale;
    }
    result.Put(row, first + output, totals);
  }
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_SUMS_CUH_
