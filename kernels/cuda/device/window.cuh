// This header multiplies a window's queries with the keys of its context, tile by tile. Device
// code.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_WINDOW_CUH_
#define FOLIO_KERNELS_CUDA_DEVICE_WINDOW_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/pages.cuh"

namespace folio::kernels::cuda::device::window {

// A block multiplies 32 queries with 64 keys. A thread has 4 x 4 of the products, those of the
// queries row + 8 i and the keys col + 16 j.
inline constexpr uint32_t kThreads = 128;
inline constexpr uint32_t kCols = 16;
inline constexpr uint32_t kRowsOfThreads = kThreads / kCols;
inline constexpr uint32_t kEach = 4;
inline constexpr uint32_t kQueries = kRowsOfThreads * kEach;
inline constexpr uint32_t kKeys = kCols * kEach;

// The tiles of a block, two numbers in a word, rows an odd number of words apart. Heads of more
// than 128 would fill more than a block's static memory, so they are multiplied in parts.
template <int kDim>
struct Tiles {
  static constexpr uint32_t kWords = kDim < 128 ? kDim / 2 : 64;
  static constexpr uint32_t kParts = kDim / 2 / kWords;
  uint32_t queries[kQueries][kWords + 1];
  uint32_t keys[kKeys][kWords + 1];
};

// Row `r` of a tile is read from part `part` of `row(r)`. It is zeros if that is null, and behind
// head_dim.
template <uint32_t kRows, uint32_t kStride, typename Row>
__device__ __forceinline__ void Fill(uint32_t (&tile)[kRows][kStride], uint32_t part,
                                     uint32_t head_dim, const Row& row) {
  constexpr uint32_t kWords = kStride - 1;
  for (uint32_t i = threadIdx.x; i < kRows * kWords; i += kThreads) {
    const auto* from = reinterpret_cast<const uint32_t*>(row(i / kWords));
    const uint32_t word = part * kWords + i % kWords;
    tile[i / kWords][i % kWords] = from != nullptr && word < head_dim / 2 ? from[word] : 0;
  }
}

// The queries and keys of one KV head of one item.
template <typename T>
struct Window {
  AttentionItem run;
  const T* q;  // of the run's first row and the KV head's first query head
  size_t q_stride;
  uint32_t group, head;
  Pages<T> pages;

  // `rows` are all of the batch.
  __device__ Window(const AttentionItem& run, const T* rows, size_t q_stride, uint32_t group,
                    uint32_t head, const Pages<T>& pages)
      : run(run),
        q(rows + run.first_row * q_stride + size_t{head} * group * pages.head_dim),
        q_stride(q_stride),
        group(group),
        head(head),
        pages(pages) {}

  __device__ __forceinline__ uint32_t queries() const { return run.rows * group; }
  // Number of slots that a query sees, 0 if there is no such query.
  __device__ __forceinline__ uint32_t visible(uint32_t query) const {
    return query < queries() ? run.context - run.rows + 1 + query / group : 0;
  }
  // Null if there is no such row.
  __device__ __forceinline__ const T* query(uint32_t i) const {
    if (i >= queries()) return nullptr;
    return q + i / group * q_stride + size_t{i % group} * pages.head_dim;
  }
  __device__ __forceinline__ const T* key(uint32_t slot) const {
    if (slot >= run.context) return nullptr;
    return pages.key(run.pages[slot / pages.page_tokens], head, slot % pages.page_tokens);
  }
  template <int kDim>
  __device__ __forceinline__ void FillQueries(Tiles<kDim>& tiles, uint32_t part,
                                              uint32_t first) const {
    Fill(tiles.queries, part, pages.head_dim, [&](uint32_t r) { return query(first + r); });
  }
  template <int kDim>
  __device__ __forceinline__ void FillKeys(Tiles<kDim>& tiles, uint32_t part,
                                           uint32_t first) const {
    Fill(tiles.keys, part, pages.head_dim, [&](uint32_t r) { return key(first + r); });
  }
};

template <typename T>
__device__ __forceinline__ void Unpack(uint32_t word, float& low, float& high) {
  low = ToFloat(T{static_cast<uint16_t>(word)});
  high = ToFloat(T{static_cast<uint16_t>(word >> 16)});
}

// Adds this thread's products of the tiles' part.
template <typename T, int kDim>
__device__ __forceinline__ void Multiply(const Tiles<kDim>& tiles, float (&out)[kEach][kEach]) {
  const uint32_t row = threadIdx.x / kCols;
  const uint32_t col = threadIdx.x % kCols;
#pragma unroll 4
  for (uint32_t word = 0; word < Tiles<kDim>::kWords; ++word) {
    float q[kEach][2];
    float k[kEach][2];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      Unpack<T>(tiles.queries[row + i * kRowsOfThreads][word], q[i][0], q[i][1]);
      Unpack<T>(tiles.keys[col + i * kCols][word], k[i][0], k[i][1]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
#pragma unroll
      for (uint32_t j = 0; j < kEach; ++j) {
        out[i][j] += q[i][0] * k[j][0];
        out[i][j] += q[i][1] * k[j][1];
      }
    }
  }
}

// The products of the queries from `base` on and the keys from `slot` on, times `scale`, in parts.
// A kernel has filled the queries or the keys of heads in one part before, because it multiplies
// them more than once. All threads take part.
template <bool kFillsQueries, typename T, int kDim>
__device__ __forceinline__ void MultiplyTiles(Tiles<kDim>& tiles, const Window<T>& window,
                                              uint32_t base, uint32_t slot, float scale,
                                              float (&out)[kEach][kEach]) {
  constexpr bool kInParts = Tiles<kDim>::kParts > 1;
#pragma unroll
  for (uint32_t i = 0; i < kEach * kEach; ++i) out[i / kEach][i % kEach] = 0;
  for (uint32_t part = 0; part < Tiles<kDim>::kParts; ++part) {
    if constexpr (kFillsQueries || kInParts) window.FillQueries(tiles, part, base);
    if constexpr (!kFillsQueries || kInParts) window.FillKeys(tiles, part, slot);
    __syncthreads();
    Multiply<T>(tiles, out);
    __syncthreads();
  }
#pragma unroll
  for (uint32_t i = 0; i < kEach * kEach; ++i) out[i / kEach][i % kEach] *= scale;
}

}  // namespace folio::kernels::cuda::device::window

#endif  // FOLIO_KERNELS_CUDA_DEVICE_WINDOW_CUH_
