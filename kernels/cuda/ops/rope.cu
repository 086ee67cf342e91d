// This kernel takes one pass over qkv. It applies the rotary embedding, stores K and V in their
// pages and writes the scores of the stored values.
#include "kernels/cuda/device/append.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
#include "kernels/cuda/device/pages.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/ops.h"

namespace folio::kernels::cuda {
namespace {

using device::kWarp;
using device::Pages;
using device::Store;

constexpr uint32_t kWarps = 4;
static_assert(kWarps * kWarp >= kMaxKvHeads);  // a thread per score

// Heads that a warp rotates at once, so that their numbers are under way together.
constexpr int kAtOnce = 4;
// From so many rows on, a row has one block for all query heads. Fewer rows need the others to
// occupy the GPU, and more of them would take the time to start blocks.
constexpr uint32_t kManyRows = 1024;

// Rotates the query heads first, first + kWarps and so on, up to kAtOnce of them.
template <typename In, typename T>
__device__ __forceinline__ void RotateHeads(const In* row, const float* cos, const float* sin,
                                            const AttentionShape& shape, uint32_t first, T* q) {
  constexpr int kEach = device::kEach;
  const uint32_t half = shape.head_dim / 2;
  for (uint32_t i = threadIdx.x % kWarp * kEach; i < half; i += kWarp * kEach) {
    float a[kAtOnce][kEach], b[kAtOnce][kEach], c[kEach], s[kEach];
    device::Load(cos + i, c);
    device::Load(sin + i, s);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const size_t at = size_t{min(first + k * kWarps, shape.heads - 1)} * shape.head_dim + i;
      device::Load(row + at, a[k]);
      device::Load(row + at + half, b[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const uint32_t head = first + k * kWarps;
      if (head >= shape.heads) break;
      device::Pack<T, kEach> low, high;
      device::RotatePairs(a[k], b[k], c, s, low, high);
      T* to = q + size_t{head} * shape.head_dim + i;
      *reinterpret_cast<device::Pack<T, kEach>*>(to) = low;
      *reinterpret_cast<device::Pack<T, kEach>*>(to + half) = high;
    }
  }
}

// Block (row, 0) stores the row's K, V and scores. The others turn the query heads.
template <typename In, typename T>
__global__ void __launch_bounds__(kWarps* kWarp)
    RopeAppendKernel(const In* qkv, size_t stride, AttentionShape shape, RopeTable rope,
                     const AppendSlot* slots, Pages<T> pages, T* q, size_t q_stride) {
  __shared__ float scores[kMaxKvHeads];
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t half = shape.head_dim / 2;
  const AppendSlot slot = slots[blockIdx.x];
  const bool used = slot.page < pages.num_pages;
  const In* row = qkv + blockIdx.x * stride;
  const float* cos = rope.cos + size_t{used ? slot.position : 0} * half;
  const float* sin = rope.sin + size_t{used ? slot.position : 0} * half;
  if (blockIdx.y > 0) {
    T* to = q + blockIdx.x * q_stride;
    if (!used) {
      const uint32_t all = shape.heads * shape.head_dim;
      const uint32_t threads = (gridDim.y - 1) * kWarps * kWarp;
      for (uint32_t i = (blockIdx.y - 1) * kWarps * kWarp + threadIdx.x; i < all; i += threads) {
        Store(0, to[i]);
      }
      return;
    }
    const uint32_t block_heads = kWarps * kAtOnce;
    for (uint32_t first = (blockIdx.y - 1) * block_heads + warp; first < shape.heads;
         first += (gridDim.y - 1) * block_heads) {
      RotateHeads(row, cos, sin, shape, first, to);
    }
    return;
  }
  if (!used) return;
  const In* keys = row + size_t{shape.heads} * shape.head_dim;
  const In* values = keys + size_t{shape.kv_heads} * shape.head_dim;
  for (uint32_t head = warp; head < shape.kv_heads; head += kWarps) {
    const size_t at = size_t{head} * shape.head_dim;
    const float score = device::AppendHead(keys + at, values + at, cos, sin, slot, head, pages);
    if (threadIdx.x % kWarp == 0) scores[head] = score;
  }
  // Scores are written together, because the board lies in host memory and each write crosses the
  // bus.
  __syncthreads();
  if (pages.scores == nullptr || threadIdx.x >= shape.kv_heads) return;
  // Read again, because keeping it over the loop would cost registers.
  const AppendSlot& place = slots[blockIdx.x];
  if (!device::IsAppended(place.score)) return;
  pages.score(place.page, place.offset)[threadIdx.x] = scores[threadIdx.x];
}

absl::Status Check(ConstTensor qkv, const AttentionShape& shape, uint32_t rows,
                   const DevicePool& pool, const Tensor& q) {
  const CacheGeometry& geometry = pool.view.geometry;
  if (shape.head_dim % 8 != 0 || shape.kv_heads == 0 || shape.kv_heads > kMaxKvHeads) {
    return device::Unserved("head_dim must be a multiple of 8, and there must be 1 to 64 KV heads");
  }
  if (qkv.stride % 4 != 0 || q.stride % 4 != 0) {
    return device::Unserved("rows of qkv and q must begin at multiples of four numbers");
  }
  if (geometry.head_dim != shape.head_dim || geometry.num_kv_heads != shape.kv_heads) {
    return device::Unserved("the pages' heads differ from the model's");
  }
  if (qkv.cols != (shape.heads + 2 * shape.kv_heads) * shape.head_dim || qkv.rows < rows ||
      q.cols != shape.heads * shape.head_dim || q.rows < rows || q.type != pool.type) {
    return device::Unserved("the shape or type of qkv or q does not match the heads and pages");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RopeAppendScore(Stream stream, ConstTensor qkv, const AttentionShape& shape,
                             const RopeTable& rope, DeviceArray<AppendSlot> slots,
                             const DevicePool& pool, Tensor q) {
  if (absl::Status status = Check(qkv, shape, slots.size, pool, q); !status.ok()) return status;
  return device::WithInput(qkv.type, pool.type, [&](auto in, auto stored) {
    using In = typename decltype(in)::Type;
    using T = typename decltype(stored)::Type;
    const uint32_t blocks =
        slots.size < kManyRows ? device::Blocks(shape.heads, kWarps * kAtOnce) : 1;
    const dim3 grid(slots.size, 1 + blocks);
    return device::LaunchOverlapping("RopeAppendScore", stream, grid, kWarps * kWarp,
                                     RopeAppendKernel<In, T>, static_cast<const In*>(qkv.data),
                                     qkv.stride, shape, rope, slots.data, Pages<T>(pool),
                                     static_cast<T*>(q.data), q.stride);
  });
}

}  // namespace folio::kernels::cuda
