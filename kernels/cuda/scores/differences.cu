// This kernel scores keys by the angle to the mean of the keys. One kernel serves keys as stored
// and keys with their rotation undone.
#include <cfloat>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/pages.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/scores/scores.h"

namespace folio::kernels::cuda {
namespace {

using device::kWarp;
using device::Pages;
using device::ToFloat;
using device::WarpSum;

constexpr uint32_t kWarps = 8;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr uint32_t kBatch = 4;         // keys that a warp has on their way at once
constexpr double kMinMeanNorm = 1e-6;  // as the CPU's

// The slots that make the mean, and the first slot that is scored.
struct Slots {
  uint32_t first_sample, stride, first_scored;
};
__device__ __forceinline__ Slots SlotsOf(const ResidentItem& run, uint32_t page_tokens) {
  return {0, 1, 0};
}
__device__ __forceinline__ Slots SlotsOf(const UnrotatedItem& run, uint32_t page_tokens) {
  const uint32_t stride = max(run.stride, 1u);
  return {page_tokens - 1 + stride, stride, run.first};
}

// One key over the lanes of a warp: lane l has the pairs (i, i + head_dim / 2), i = l + 32 j.
template <int kPairs>
struct Key {
  float a[kPairs], b[kPairs];
  float inverse;  // 1 / its length, or 0 if the key is too short to have a direction

  __device__ __forceinline__ float Dot(const float (&x)[kPairs], const float (&y)[kPairs]) const {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) sum += a[j] * x[j] + b[j] * y[j];
    return WarpSum(sum);
  }
};

// As stored.
__device__ __forceinline__ void TurnBack(const ResidentItem&, const RopeTable&, uint32_t, uint32_t,
                                         uint32_t, float&, float&) {}
// By the angle of pair i at the slot's position.
__device__ __forceinline__ void TurnBack(const UnrotatedItem& run, const RopeTable& rope,
                                         uint32_t slot, uint32_t half, uint32_t i, float& a,
                                         float& b) {
  const size_t at = size_t{run.positions[slot]} * half + i;
  const float x = a * rope.cos[at] + b * rope.sin[at];
  b = b * rope.cos[at] - a * rope.sin[at];
  a = x;
}

// A slot outside the context reads as a key without a direction.
template <int kPairs, typename T, typename Run>
__device__ __forceinline__ void Read(const Run& run, uint64_t slot, uint32_t head,
                                     const RopeTable& rope, const Pages<T>& pages,
                                     Key<kPairs>& key) {
  const uint32_t half = pages.head_dim / 2;
  const bool here = slot < run.tokens;
  const auto at = static_cast<uint32_t>(here ? slot : 0);
  const T* from = pages.key(run.pages[at / pages.page_tokens], head, at % pages.page_tokens);
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const uint32_t i = threadIdx.x % kWarp + j * kWarp;
    const bool mine = here && i < half;
    key.a[j] = mine ? ToFloat(from[i]) : 0;
    key.b[j] = mine ? ToFloat(from[i + half]) : 0;
    if (mine) TurnBack(run, rope, at, half, i, key.a[j], key.b[j]);
  }
}

template <int kPairs>
__device__ __forceinline__ void Measure(Key<kPairs>& key) {
  const float squares = key.Dot(key.a, key.b);
  key.inverse = squares < FLT_MIN ? 0 : 1 / sqrtf(squares);
}

// Sums this warp's share of the keys' directions. A few at a time are summed in float and the rest
// in double, because the directions of many keys may cancel.
template <int kPairs, typename T, typename Run>
__device__ __forceinline__ void AddDirections(const Run& run, const Slots& slots, uint32_t head,
                                              const RopeTable& rope, const Pages<T>& pages,
                                              double (&a)[kPairs], double (&b)[kPairs]) {
  const uint64_t step = uint64_t{kWarps} * kBatch * slots.stride;
  const uint64_t mine = uint64_t{threadIdx.x / kWarp} * kBatch * slots.stride;
  for (uint64_t first = slots.first_sample + mine; first < run.tokens; first += step) {
    Key<kPairs> keys[kBatch];
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k) {
      Read(run, first + uint64_t{k} * slots.stride, head, rope, pages, keys[k]);
    }
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k) Measure(keys[k]);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      float sum_a = 0;
      float sum_b = 0;
#pragma unroll
      for (uint32_t k = 0; k < kBatch; ++k) {
        sum_a += keys[k].a[j] * keys[k].inverse;
        sum_b += keys[k].b[j] * keys[k].inverse;
      }
      a[j] += sum_a;
      b[j] += sum_b;
    }
  }
}

// The shared memory of a block.
template <int kPairs>
struct Shared {
  static constexpr int kDim = 2 * kPairs * kWarp;
  double sums[kWarps][kDim];  // [warp][pairs' a, then pairs' b]
  float direction[kDim];
  double scratch[kWarps];
};

// Adds the warps' sums and divides by the length. The result is the mean's direction, or zeros if
// the mean of `count` directions is so short that it is rounding noise.
template <int kPairs>
__device__ __forceinline__ void Normalise(uint32_t count, Shared<kPairs>& shared) {
  static_assert(Shared<kPairs>::kDim <= kThreads);
  double sum = 0;
  if (threadIdx.x < Shared<kPairs>::kDim) {
    for (uint32_t warp = 0; warp < kWarps; ++warp) sum += shared.sums[warp][threadIdx.x];
  }
  const double norm = sqrt(device::BlockSum<kThreads>(sum * sum, shared.scratch));
  const bool none = norm == 0 || norm < kMinMeanNorm * count;
  if (threadIdx.x < Shared<kPairs>::kDim) {
    shared.direction[threadIdx.x] = none ? 0.0f : static_cast<float>(sum / norm);
  }
  __syncthreads();
}

template <typename T, int kPairs, typename Run>
__global__ void __launch_bounds__(kThreads)
    DifferenceKernel(const Run* runs, RopeTable rope, Pages<T> pages) {
  __shared__ Shared<kPairs> shared;
  const Run run = runs[blockIdx.x];
  if (run.tokens == 0) return;
  const uint32_t head = blockIdx.y;
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  const Slots slots = SlotsOf(run, pages.page_tokens);
  double sum_a[kPairs] = {};
  double sum_b[kPairs] = {};
  AddDirections(run, slots, head, rope, pages, sum_a, sum_b);
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    shared.sums[warp][j * kWarp + lane] = sum_a[j];
    shared.sums[warp][(kPairs + j) * kWarp + lane] = sum_b[j];
  }
  __syncthreads();
  const uint32_t count = run.tokens <= slots.first_sample
                             ? 0
                             : (run.tokens - 1 - slots.first_sample) / slots.stride + 1;
  Normalise(count, shared);

  float a[kPairs];
  float b[kPairs];
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    a[j] = shared.direction[j * kWarp + lane];
    b[j] = shared.direction[(kPairs + j) * kWarp + lane];
  }
  for (uint64_t first = slots.first_scored + uint64_t{warp} * kBatch; first < run.tokens;
       first += kThreads / kWarp * kBatch) {
    Key<kPairs> keys[kBatch];
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k) Read(run, first + k, head, rope, pages, keys[k]);
#pragma unroll
    for (uint32_t k = 0; k < kBatch; ++k) {
      Measure(keys[k]);
      const float score = -(keys[k].Dot(a, b) * keys[k].inverse);
      const auto slot = static_cast<uint32_t>(first + k);
      if (lane == 0 && slot < run.tokens) {
        pages.score(run.pages[slot / pages.page_tokens], slot % pages.page_tokens)[head] = score;
      }
    }
  }
}

template <typename Run>
absl::Status Score(absl::string_view name, Stream stream, DeviceArray<Run> runs,
                   const RopeTable& rope, const DevicePool& pool) {
  const CacheGeometry& geometry = pool.view.geometry;
  if (pool.view.scores == nullptr) return absl::OkStatus();
  if (geometry.head_dim % 2 != 0 || geometry.head_dim > 8 * kWarp) {
    return device::Unserved("key scores need an even head_dim of at most 256");
  }
  const dim3 grid(runs.size, geometry.num_kv_heads);
  return device::WithStorage(pool.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto kernel = geometry.head_dim <= 2 * kWarp   ? DifferenceKernel<T, 1, Run>
                        : geometry.head_dim <= 4 * kWarp ? DifferenceKernel<T, 2, Run>
                                                         : DifferenceKernel<T, 4, Run>;
    return device::Launch(name, stream, grid, kThreads, kernel, runs.data, rope, Pages<T>(pool));
  });
}

}  // namespace

absl::Status ScoreResident(Stream stream, DeviceArray<ResidentItem> runs, const DevicePool& pool) {
  return Score("ScoreResident", stream, runs, RopeTable{}, pool);
}

absl::Status ScoreUnrotated(Stream stream, DeviceArray<UnrotatedItem> runs, const RopeTable& rope,
                            const DevicePool& pool) {
  return Score("ScoreUnrotated", stream, runs, rope, pool);
}

}  // namespace folio::kernels::cuda
