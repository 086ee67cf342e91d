// This header has attention over 16 tokens at a time by one warp, on tensor cores. Device code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_ATTENTION_STATE_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_ATTENTION_STATE_CUH_

#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/tensor_core.cuh"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda::device {

inline constexpr uint32_t kPiece = 16;       // tokens that a warp reads at once
inline constexpr uint32_t kMostGroup = 8;    // query heads of a KV head
inline constexpr float kNoScore = -FLT_MAX;  // the largest score of no tokens

// The result of attention over some tokens: for each query head the largest score, the sum of
// weights, and the sum of weighted values. Weights are powers of 2 of the distance to the largest
// score.
template <int kHeadDim>
struct alignas(16) Part {
  float most[kMostGroup];
  float weights[kMostGroup];
  float values[kMostGroup][kHeadDim];
};

__device__ __forceinline__ uint32_t RoundPair(float first, float second) {
  bf16 low;
  bf16 high;
  Store(first, low);
  Store(second, high);
  return Pair(low, high);
}
__device__ __forceinline__ uint32_t Lower(uint32_t first, uint32_t second) {
  return (first & 0xffff) | second << 16;
}
__device__ __forceinline__ uint32_t Upper(uint32_t first, uint32_t second) {
  return first >> 16 | (second & 0xffff0000);
}

// A lane's part of `kRows` rows of queries or keys: eight of each 32 numbers.
template <int kHeadDim, int kRows>
struct RowParts {
  uint4 at[kRows][kHeadDim / 32];

  // `first` is the first row of the lane's group of four, and the others follow at `apart` rows.
  __device__ __forceinline__ void Load(const bf16* first, uint32_t row, uint32_t apart,
                                       uint32_t rows) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int part = 0; part < kHeadDim / 32; ++part) {
        at[i][part] =
            LoadPack(first + size_t{row + i * apart} * kHeadDim + part * 32 + threadIdx.x % 4 * 8,
                     row + i * apart < rows);
      }
    }
  }
};

// A lane's part of the values of 16 tokens: eight of each 64 numbers of tokens 2t, 2t + 1, 2t + 8
// and 2t + 9, where t = lane % 4.
template <int kHeadDim>
struct ValueParts {
  uint4 at[kHeadDim / 64][4];

  __device__ __forceinline__ void Load(const bf16* first, uint32_t tokens) {
    const uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (int part = 0; part < kHeadDim / 64; ++part) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t token = lane % 4 * 2 + i % 2 + i / 2 * 8;
        at[part][i] = LoadPack(first + token * kHeadDim + part * 64 + lane / 4 * 8, token < tokens);
      }
    }
  }
};

__device__ __forceinline__ uint32_t Word(const uint4& pack, int i) {
  return i == 0 ? pack.x : i == 1 ? pack.y : i == 2 ? pack.z : pack.w;
}

// The state of a warp over its tokens so far. A lane has the scores' state of query head lane / 4,
// where `weights` is the sum of its own tokens, and the values' sums of heads 2t and 2t + 1.
template <int kHeadDim>
struct WarpState {
  float most = kNoScore;
  float weights = 0;
  float values[kHeadDim / 16][4] = {};

  // Scores of query heads g = lane / 4 and 16 tokens: [tile of 8 tokens][token 2t, 2t + 1]. Tokens
  // [before, tokens) count, and there is at least one.
  __device__ __forceinline__ void Add(const RowParts<kHeadDim, 1>& queries,
                                      const RowParts<kHeadDim, 2>& keys,
                                      const ValueParts<kHeadDim>& loaded, float scale,
                                      uint32_t before, uint32_t tokens) {
    float scores[2][4] = {};
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int part = 0; part < kHeadDim / 32; ++part) {
        MultiplyPacks(queries.at[0][part], uint4{0, 0, 0, 0}, keys.at[tile][part], scores[tile]);
      }
    }
    const uint32_t lane = threadIdx.x % kWarp;
    float largest = most;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][i % 2];
      const uint32_t token = i / 2 * 8 + lane % 4 * 2 + i % 2;
      const bool there = token >= before && token < tokens;
      score = there ? score * scale : kNoScore;
      largest = fmaxf(largest, score);
    }
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    const float shrink = exp2f(most - largest);
    most = largest;
    weights *= shrink;
    uint32_t pairs[2];
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const float first = exp2f(scores[tile][0] - largest);
      const float second = exp2f(scores[tile][1] - largest);
      weights += first + second;
      pairs[tile] = RoundPair(first, second);
    }
    // Heads 2t and 2t + 1, whose state is in lanes 8t and 8t + 4.
    const float shrinks[2] = {__shfl_sync(kAllLanes, shrink, static_cast<int>(lane % 4 * 8)),
                              __shfl_sync(kAllLanes, shrink, static_cast<int>(lane % 4 * 8 + 4))};
#pragma unroll
    for (int tile = 0; tile < kHeadDim / 16; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) values[tile][i] *= shrinks[i % 2];
      const uint4(&v)[4] = loaded.at[tile / 4];
      const uint32_t words[4] = {Word(v[0], tile % 4), Word(v[1], tile % 4), Word(v[2], tile % 4),
                                 Word(v[3], tile % 4)};
      MultiplyTiles({Lower(words[0], words[1]), Upper(words[0], words[1]),
                     Lower(words[2], words[3]), Upper(words[2], words[3])},
                    {pairs[0], pairs[1]}, values[tile]);
    }
  }

  __device__ __forceinline__ void Store(Part<kHeadDim>& to) const {
    const uint32_t lane = threadIdx.x % kWarp;
    float sum = weights;
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    if (lane % 4 == 0) {
      to.most[lane / 4] = most;
      to.weights[lane / 4] = sum;
    }
#pragma unroll
    for (int tile = 0; tile < kHeadDim / 16; ++tile) {
      // Rows g and g + 8 of a tile are neighbouring numbers of the head.
      const uint32_t at = tile / 4 * 64 + lane / 4 * 8 + tile % 4 * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) to.values[lane % 4 * 2 + i % 2][at + i / 2] = values[tile][i];
    }
  }
};

}  // namespace folio::kernels::cuda::device

#endif  // FOLIO_KERNELS_CUDA_DEVICE_ATTENTION_STATE_CUH_
