// This header adds the parts of sums that the warps of a block have computed for a tile of 16
// outputs, and gives the sums to what follows a product. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_SUMS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_SUMS_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/product_operands.cuh"
#include "kernels/cuda/device/reduce.cuh"

namespace folio::kernels::cuda::device {

// Rows that tensor cores multiply at once, which are a tile of rows.
inline constexpr uint32_t kTileRows = 8;

// Calls call(kRowTiles) with as many tiles as hold so many rows, which are one or two.
template <typename Call>
auto WithRowTiles(uint32_t rows, Call&& call) {
  return rows > kTileRows ? call(std::integral_constant<int, 2>())
                          : call(std::integral_constant<int, 1>());
}

// This warp's sums for tiles of rows and of outputs, and the squares that this lane has seen of a
// row in each.
template <int kRowTiles, int kTiles>
struct Sums {
  float at[kRowTiles][kTiles][4] = {};
  float squares[kRowTiles] = {};
};

// The sums of all warps, in the form in which lanes hold them, and of the squares of rows.
template <int kWarps, int kRowTiles, int kTiles>
struct Parts {
  float sums[kWarps][kRowTiles][kTiles][4][kWarp];
  float squares[kWarps][kRowTiles * kTileRows];
};

// Puts this warp's sums where PutResults finds them.
template <typename Input, int kWarps, int kRowTiles, int kTiles>
__device__ __forceinline__ void PutParts(const Sums<kRowTiles, kTiles>& sums,
                                         Parts<kWarps, kRowTiles, kTiles>& parts) {
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (int rows = 0; rows < kRowTiles; ++rows) {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      parts.sums[warp][rows][i / 4][i % 4][lane] = sums.at[rows][i / 4][i % 4];
    }
    if constexpr (Input::kNormed) {
      // The four lanes of a row.
      float squares = sums.squares[rows];
      squares += __shfl_xor_sync(kAllLanes, squares, 1);
      squares += __shfl_xor_sync(kAllLanes, squares, 2);
      if (lane % 4 == 0) parts.squares[warp][rows * kTileRows + lane / 4] = squares;
    }
  }
}

// Adds the warps' parts of each result, in their order. The tile begins with the output `first` of
// `outputs`. `result` takes the sums of one output, or of a gate and its up, for one row. `scales`
// is null, or has a factor for each output, those of ups behind those of gates.
template <typename Input, typename Result, int kWarps, int kRowTiles, int kTiles>
__device__ __forceinline__ void PutResults(const Input& in,
                                           const Parts<kWarps, kRowTiles, kTiles>& parts,
                                           uint32_t first, uint32_t outputs, const float* scales,
                                           const Result& result) {
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
    const uint32_t lane = output % 8 * 4 + row % kTileRows / 2;
    float totals[kTiles];
    for (int tile = 0; tile < kTiles; ++tile) {
      float sum = 0;
      for (uint32_t warp = 0; warp < kWarps; ++warp) {
        sum += parts.sums[warp][row / kTileRows][tile][number][lane];
      }
      totals[tile] = sum * scale;
      if (scales != nullptr) totals[tile] *= scales[size_t{outputs} * tile + first + output];
    }
    result.Put(row, first + output, totals);
  }
}

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_SUMS_CUH_
