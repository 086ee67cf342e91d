// This header loads the operands of products of few rows in the form that tensor cores take them.
// A lane multiplies eight neighbouring columns at once, which are two registers of each of two
// instructions. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_OPERANDS_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_OPERANDS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/e4m3_packs.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

// Numbers of a row of inputs that a lane loads at once.
inline constexpr uint32_t kLoad = 8;

// How the weights of a type are read: 16 bytes by a lane, and a line of 128 bytes of each of the
// matrix's rows by a warp together.
template <typename Weight>
struct Lines {
  static constexpr uint32_t kColumns = 128 / sizeof(Weight);  // of a line
  static constexpr uint32_t kNumbers = 16 / sizeof(Weight);   // of a lane
  static constexpr int kPacks = kNumbers / kLoad;             // that a lane multiplies one by one
};

// Outputs that a block computes at a time.
inline constexpr uint32_t kTileOutputs = 16;

// The warps of a block read lines in turn. The first column of this warp's line in a turn.
template <typename Weight, uint32_t kWarps>
__device__ __forceinline__ uint32_t LineOf(uint32_t turn) {
  return (turn * kWarps + threadIdx.x / 32) * Lines<Weight>::kColumns;
}
// The first column that this lane loads of the first half of that line.
template <typename Weight, uint32_t kWarps>
__device__ __forceinline__ uint32_t ColumnOf(uint32_t turn) {
  return LineOf<Weight, kWarps>(turn) + threadIdx.x % 4 * Lines<Weight>::kNumbers;
}

// Neighbouring numbers of a row, and zeros beyond its end. `cols` is a multiple of kLoad.
__device__ __forceinline__ void LoadEight(const float* row, uint32_t at, uint32_t cols,
                                          float (&to)[kLoad]) {
  if (at < cols) {
    Load(row + at, to);
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < kLoad; ++i) to[i] = 0;
}

// Inputs give the parts that are multiplied for eight columns of a row.
struct PlainRows {
  static constexpr bool kNormed = false;
  static constexpr int kParts = 1;
  const bf16* rows;
  size_t stride;
  uint32_t count, cols;

  __device__ __forceinline__ void Load(uint32_t row, uint32_t at, uint4 (&parts)[1],
                                       float& squares) const {
    parts[0] = LoadPack(rows + row * stride + at, row < count && at < cols);
  }
};

// The second part, if there is one, is what the first one lost by rounding.
template <int kNumParts>
struct NormedRows {
  static constexpr bool kNormed = true;
  static constexpr int kParts = kNumParts;
  const float* rows;
  size_t stride;
  uint32_t count, cols;
  const float* norm;
  float eps;

  __device__ __forceinline__ void Load(uint32_t row, uint32_t at, uint4 (&parts)[kParts],
                                       float& squares) const {
    float x[kLoad] = {};
    float factor[kLoad];
    if (row < count) LoadEight(rows + row * stride, at, cols, x);
    LoadEight(norm, at, cols, factor);
#pragma unroll
    for (uint32_t i = 0; i < kLoad; ++i) {
      squares += x[i] * x[i];
      x[i] *= factor[i];
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      bf16 rounded[kLoad];
#pragma unroll
      for (uint32_t i = 0; i < kLoad; ++i) {
        Store(x[i], rounded[i]);
        x[i] -= ToFloat(rounded[i]);
      }
      parts[part] = Pairs(rounded);
    }
  }
};

// Weights [outputs, cols], bf16 or e4m3. With SwiGLU as many rows of ups follow.
template <typename Weight>
struct Matrix {
  const Weight* data;
  size_t stride;
  uint32_t outputs;
  const float* scales;  // of e4m3, one for each row
};

// The rows of a matrix that a lane reads for a tile, with the gates and ups of SwiGLU as two: rows
// g and g + 8 of each, where g = lane / 4. Rows beyond the last one are read as the last one.
template <typename Weight, int kTiles>
struct TileRows {
  const Weight* at[kTiles][2];

  __device__ __forceinline__ TileRows(const Matrix<Weight>& matrix, uint32_t tile) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const uint32_t row = tile * kTileOutputs + threadIdx.x % 32 / 4 + i % 2 * 8;
      const size_t of_all = size_t{matrix.outputs} * (i / 2) + min(row, matrix.outputs - 1);
      at[i / 2][i % 2] = matrix.data + of_all * matrix.stride;
    }
  }
};

// The weights of one line that a lane holds: rows g and g + 8 of each tile, and both halves of
// the line.
template <typename Weight, int kTiles>
struct Weights {
  uint4 at[kTiles][2][2];

  __device__ __forceinline__ void Load(const TileRows<Weight, kTiles>& rows, uint32_t column,
                                       uint32_t cols) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const uint32_t col = column + part % 2 * (Lines<Weight>::kColumns / 2);
        at[tile][part / 2][part % 2] = LoadPack(rows.at[tile][part / 2] + col, col < cols);
      }
    }
  }

  // Eight of the numbers, in bf16.
  __device__ __forceinline__ uint4 Pack(int tile, int row, int half, int pack) const {
    if constexpr (sizeof(Weight) == sizeof(bf16)) return at[tile][row][half];
    if constexpr (sizeof(Weight) == sizeof(e4m3)) return PackOfCodes(at[tile][row][half], pack);
  }
};

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_PRODUCT_OPERANDS_CUH_
