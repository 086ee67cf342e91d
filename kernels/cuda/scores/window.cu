// These kernels add up the attention from a prompt's last queries to each of its tokens. The first
// finds the softmax's largest score and sum per query, part by part of the context. The next give
// every token its share and take the maximum over neighbours. The queries' scores are computed
// twice instead of kept, so that memory does not grow with the window.
#include <cfloat>
#include <cmath>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/pages.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/window.cuh"
#include "kernels/cuda/scores/scores.h"

namespace folio::kernels::cuda {
namespace {

using device::kAllLanes;
using device::Pages;
using device::window::kCols;
using device::window::kEach;
using device::window::kKeys;
using device::window::kQueries;
using device::window::kRowsOfThreads;
using device::window::kThreads;
using device::window::MultiplyTiles;
using device::window::Tiles;
using device::window::Window;

constexpr uint32_t kPart = 8 * kKeys;  // slots of a block

struct Softmax {
  float most, sum;  // of exp(score - most)
};

// Scratch memory of one call, [run][kv_head] and then:
struct Scratch {
  Softmax* parts;  // [part][query]
  Softmax* whole;  // [query]
  float* mass;     // [slot]
  uint32_t parts_size, queries, context;

  static size_t Elements(const WindowLimits& limits, uint32_t group) {
    const size_t queries = size_t{limits.queries} * group;
    return (device::Blocks(limits.context, kPart) + size_t{1}) * queries * 2 + limits.context;
  }
  Scratch(void* memory, size_t heads, const WindowLimits& limits, uint32_t group)
      : parts(static_cast<Softmax*>(memory)),
        parts_size(device::Blocks(limits.context, kPart)),
        queries(limits.queries * group),
        context(limits.context) {
    whole = parts + heads * parts_size * queries;
    mass = reinterpret_cast<float*>(whole + heads * queries);
  }
  __device__ __forceinline__ size_t place() const {
    return size_t{blockIdx.z} * gridDim.y + blockIdx.y;
  }
  __device__ __forceinline__ Softmax* part(uint32_t i) const {
    return parts + (place() * parts_size + i) * queries;
  }
  __device__ __forceinline__ Softmax* softmax() const { return whole + place() * queries; }
  __device__ __forceinline__ float* slots() const { return mass + place() * context; }
  __device__ __forceinline__ bool Holds(const WindowItem& run, uint32_t group) const {
    const AttentionItem& of = run.queries;
    return of.context <= context && of.rows * group <= queries && of.rows <= of.context;
  }
};

__device__ __forceinline__ Softmax Merge(const Softmax& a, const Softmax& b) {
  const float most = max(a.most, b.most);
  return {most, a.sum * expf(a.most - most) + b.sum * expf(b.most - most)};
}

// Adds the scores of the slots slot, slot + kCols, ... that are visible.
__device__ __forceinline__ void Add(const float (&score)[kEach], uint32_t slot, uint32_t visible,
                                    Softmax& to) {
  float most = to.most;
#pragma unroll
  for (uint32_t j = 0; j < kEach; ++j) {
    if (slot + j * kCols < visible) most = max(most, score[j]);
  }
  to.sum *= expf(to.most - most);
  to.most = most;
#pragma unroll
  for (uint32_t j = 0; j < kEach; ++j) {
    if (slot + j * kCols < visible) to.sum += expf(score[j] - most);
  }
}

// A block is (part, KV head, item) and finds the largest scores and sums over the part's slots.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads)
    WindowSoftmaxKernel(const WindowItem* runs, const T* q, size_t q_stride, uint32_t group,
                        float scale, Pages<T> pages, Scratch scratch) {
  __shared__ Tiles<kDim> tiles;
  const WindowItem& run = runs[blockIdx.z];
  if (!scratch.Holds(run, group)) return;
  const Window<T> window(run.queries, q, q_stride, group, blockIdx.y, pages);
  const uint32_t first = blockIdx.x * kPart;
  const uint32_t end = min(first + kPart, run.queries.context);
  const uint32_t row = threadIdx.x / kCols;
  const uint32_t col = threadIdx.x % kCols;
  for (uint32_t base = 0; base < window.queries(); base += kQueries) {
    Softmax mine[kEach];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) mine[i] = {-FLT_MAX, 0};
    if constexpr (Tiles<kDim>::kParts == 1) window.FillQueries(tiles, 0, base);
    for (uint32_t slot = first; slot < end; slot += kKeys) {
      float score[kEach][kEach];
      MultiplyTiles</*kFillsQueries=*/false>(tiles, window, base, slot, scale, score);
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        Add(score[i], slot + col, window.visible(base + row + i * kRowsOfThreads), mine[i]);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
#pragma unroll
      for (int lanes = kCols / 2; lanes > 0; lanes /= 2) {
        mine[i] = Merge(mine[i], {__shfl_xor_sync(kAllLanes, mine[i].most, lanes),
                                  __shfl_xor_sync(kAllLanes, mine[i].sum, lanes)});
      }
      const uint32_t query = base + row + i * kRowsOfThreads;
      if (col == 0 && query < window.queries()) scratch.part(blockIdx.x)[query] = mine[i];
    }
  }
}

// One thread per query merges the query's parts in order and inverts the sum.
__global__ void __launch_bounds__(kThreads)
    WindowMergeKernel(const WindowItem* runs, uint32_t group, Scratch scratch) {
  const WindowItem& run = runs[blockIdx.z];
  const uint32_t query = blockIdx.x * kThreads + threadIdx.x;
  if (!scratch.Holds(run, group) || query >= run.queries.rows * group) return;
  Softmax all{-FLT_MAX, 0};
  for (uint32_t part = 0; part * kPart < run.queries.context; ++part) {
    all = Merge(all, scratch.part(part)[query]);
  }
  scratch.softmax()[query] = {all.most, 1 / all.sum};
}

// A block is (part, KV head, item) and adds up all queries' shares of the part's slots.
template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads)
    WindowMassKernel(const WindowItem* runs, const T* q, size_t q_stride, uint32_t group,
                     float scale, Pages<T> pages, Scratch scratch) {
  __shared__ Tiles<kDim> tiles;
  __shared__ float columns[kRowsOfThreads][kKeys];
  const WindowItem& run = runs[blockIdx.z];
  // Without rows there are no products, whose barriers keep the writes to `columns` apart.
  if (!scratch.Holds(run, group) || run.queries.rows == 0) return;
  const Window<T> window(run.queries, q, q_stride, group, blockIdx.y, pages);
  const uint32_t first = blockIdx.x * kPart;
  const uint32_t end = min(first + kPart, run.queries.context);
  const uint32_t row = threadIdx.x / kCols;
  const uint32_t col = threadIdx.x % kCols;
  for (uint32_t slot = first; slot < end; slot += kKeys) {
    float mass[kEach] = {};
    if constexpr (Tiles<kDim>::kParts == 1) window.FillKeys(tiles, 0, slot);
    for (uint32_t base = 0; base < window.queries(); base += kQueries) {
      float score[kEach][kEach];
      MultiplyTiles</*kFillsQueries=*/true>(tiles, window, base, slot, scale, score);
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t query = base + row + i * kRowsOfThreads;
        const uint32_t visible = window.visible(query);
        const Softmax whole = visible > 0 ? scratch.softmax()[query] : Softmax{0, 0};
#pragma unroll
        for (uint32_t j = 0; j < kEach; ++j) {
          if (slot + col + j * kCols < visible) {
            mass[j] += expf(score[i][j] - whole.most) * whole.sum;
          }
        }
      }
    }
#pragma unroll
    for (uint32_t j = 0; j < kEach; ++j) columns[row][col + j * kCols] = mass[j];
    __syncthreads();
    if (threadIdx.x < kKeys && slot + threadIdx.x < end) {
      float sum = 0;
      for (uint32_t r = 0; r < kRowsOfThreads; ++r) sum += columns[r][threadIdx.x];
      scratch.slots()[slot + threadIdx.x] = sum;
    }
    // `columns` is written again behind the next products' barriers.
  }
}

// One thread per slot takes the mean over queries and the maximum over neighbours.
__global__ void __launch_bounds__(kThreads)
    WindowPoolKernel(const WindowItem* runs, uint32_t group, Pages<uint16_t> pages,
                     Scratch scratch) {
  const WindowItem& run = runs[blockIdx.z];
  const AttentionItem& of = run.queries;
  const uint32_t slot = blockIdx.x * kThreads + threadIdx.x;
  if (!scratch.Holds(run, group) || of.rows == 0 || slot >= of.context) return;
  const float* mass = scratch.slots();
  const uint32_t before = min(slot, run.neighbours);
  const uint32_t behind = min(of.context - 1 - slot, run.neighbours);
  float most = 0;
  for (uint32_t i = slot - before; i <= slot + behind; ++i) most = max(most, mass[i]);
  pages.score(of.pages[slot / pages.page_tokens], slot % pages.page_tokens,
              run.channel)[blockIdx.y] = most / static_cast<float>(of.rows * group);
}

}  // namespace

size_t WindowScratchBytes(uint32_t runs, const WindowLimits& limits, const AttentionShape& shape) {
  return size_t{runs} * shape.kv_heads * sizeof(float) *
         Scratch::Elements(limits, shape.heads / shape.kv_heads);
}

absl::Status ScoreWindow(Stream stream, ConstTensor q, DeviceArray<WindowItem> runs,
                         const WindowLimits& limits, const AttentionShape& shape,
                         const DevicePool& pool, void* scratch_memory) {
  const CacheGeometry& geometry = pool.view.geometry;
  if (pool.view.scores == nullptr || runs.size == 0) return absl::OkStatus();
  if (shape.kv_heads == 0 || shape.heads % shape.kv_heads != 0 ||
      geometry.head_dim != shape.head_dim || geometry.num_kv_heads != shape.kv_heads) {
    return device::Unserved("the pages' heads are not the model's");
  }
  if (shape.head_dim % 2 != 0 || shape.head_dim > 256 || q.type != pool.type || q.stride % 2 != 0 ||
      q.cols != shape.heads * shape.head_dim) {
    return device::Unserved(
        "window scores need an even head_dim of at most 256 and queries of the pages' type and "
        "heads");
  }
  const uint32_t group = shape.heads / shape.kv_heads;
  const Scratch scratch(scratch_memory, size_t{runs.size} * shape.kv_heads, limits, group);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  const auto grid = [&](uint32_t items, uint32_t block) {
    return dim3(device::Blocks(items, block), shape.kv_heads, runs.size);
  };
  return device::WithStorage(pool.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto of_size = [&](auto* small, auto* medium, auto* large) {
      return shape.head_dim <= 64 ? small : shape.head_dim <= 128 ? medium : large;
    };
    const Pages<T> pages(pool);
    const auto* queries = static_cast<const T*>(q.data);
    absl::Status status =
        device::Launch("ScoreWindow, softmax", stream, grid(limits.context, kPart), kThreads,
                       of_size(WindowSoftmaxKernel<T, 64>, WindowSoftmaxKernel<T, 128>,
                               WindowSoftmaxKernel<T, 256>),
                       runs.data, queries, q.stride, group, scale, pages, scratch);
    status.Update(device::Launch("ScoreWindow, merge", stream,
                                 grid(limits.queries * group, kThreads), kThreads,
                                 WindowMergeKernel, runs.data, group, scratch));
    status.Update(device::Launch(
        "ScoreWindow, mass", stream, grid(limits.context, kPart), kThreads,
        of_size(WindowMassKernel<T, 64>, WindowMassKernel<T, 128>, WindowMassKernel<T, 256>),
        runs.data, queries, q.stride, group, scale, pages, scratch));
    status.Update(device::Launch("ScoreWindow, pool", stream, grid(limits.context, kThreads),
                                 kThreads, WindowPoolKernel, runs.data, group,
                                 Pages<uint16_t>(pool), scratch));
    return status;
  });
}

}  // namespace folio::kernels::cuda
