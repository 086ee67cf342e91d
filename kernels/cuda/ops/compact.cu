// This kernel moves the survivors of an eviction together.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/pages.cuh"
#include "kernels/cuda/ops/ops.h"

namespace folio::kernels::cuda {
namespace {

using device::Pages;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kHeld = 4;  // pieces per thread that are on their way at once

// Works tile by tile and reads all of a tile before it writes any of it. Slot i takes slot
// keep[i] >= i, so a later tile never reads a slot that an earlier one wrote. `place(slot, i)` is
// the address of piece i < pieces of a slot.
template <typename Piece, typename Place>
__device__ __forceinline__ void Move(const CompactItem& run, uint32_t pieces, const Place& place) {
  const uint32_t tile = kThreads * kHeld / pieces;  // slots
  for (uint32_t first = 0; first < run.kept; first += tile) {
    const uint32_t end = min(first + tile, run.kept);
    if (run.keep[end - 1] == end - 1) continue;  // nothing before it moves either
    Piece held[kHeld];
#pragma unroll
    for (uint32_t j = 0; j < kHeld; ++j) {
      const uint32_t item = j * kThreads + threadIdx.x;
      const uint32_t slot = first + item / pieces;
      if (slot < end) held[j] = *place(run.keep[slot], item % pieces);
    }
    __syncthreads();
#pragma unroll
    for (uint32_t j = 0; j < kHeld; ++j) {
      const uint32_t item = j * kThreads + threadIdx.x;
      const uint32_t slot = first + item / pieces;
      if (slot < end) *place(slot, item % pieces) = held[j];
    }
  }
}

// A block is (item, head of K or V), and the last block of an item moves its scores. Both types of
// storage have two bytes.
__global__ void __launch_bounds__(kThreads)
    CompactKernel(const CompactItem* runs, Pages<uint16_t> pages) {
  const CompactItem run = runs[blockIdx.x];
  const uint32_t page_tokens = pages.page_tokens;
  if (blockIdx.y == 2 * pages.kv_heads) {
    Move<float>(run, pages.kv_heads, [&](uint32_t slot, uint32_t head) {
      return pages.score(run.pages[slot / page_tokens], slot % page_tokens) + head;
    });
    return;
  }
  constexpr uint32_t kPerPiece = sizeof(uint4) / sizeof(uint16_t);
  Move<uint4>(run, pages.head_dim / kPerPiece, [&](uint32_t slot, uint32_t piece) {
    uint16_t* row = pages.row(run.pages[slot / page_tokens], blockIdx.y, slot % page_tokens);
    return reinterpret_cast<uint4*>(row) + piece;
  });
}

}  // namespace

absl::Status Compact(Stream stream, DeviceArray<CompactItem> runs, const DevicePool& pool) {
  const CacheGeometry& geometry = pool.view.geometry;
  if (geometry.head_dim % 8 != 0 || geometry.head_dim > 1024 ||
      geometry.num_kv_heads > kMaxKvHeads) {
    return device::Unserved(
        "head_dim is a multiple of 8 up to 1024, and there are at most 64 KV heads");
  }
  const uint32_t channels = 2 * geometry.num_kv_heads + (pool.view.scores != nullptr ? 1 : 0);
  return device::Launch("Compact", stream, dim3(runs.size, channels), kThreads, CompactKernel,
                        runs.data, Pages<uint16_t>(pool));
}

}  // namespace folio::kernels::cuda
