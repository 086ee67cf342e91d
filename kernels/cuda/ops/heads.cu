// These kernels change queries and keys between the product and the rotation.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/widths.cuh"
#include "kernels/cuda/ops/ops.h"

namespace folio::kernels::cuda {
namespace {

using device::AllDivisible;
using device::Load;
using device::StoreAll;
using device::WithWidth;

constexpr int kThreads = 256;

// A warp normalises one head. Packs keep the heads of usual sizes in registers of its lanes.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    NormHeadsKernel(float* qkv, size_t stride, uint32_t query_heads, uint32_t heads,
                    uint32_t head_dim, HeadNorms norms) {
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  const uint32_t head = blockIdx.y * (kThreads / device::kWarp) + threadIdx.x / device::kWarp;
  if (head >= heads) return;  // the whole warp
  float* x = qkv + blockIdx.x * stride + head * head_dim;
  const float* weight = head < query_heads ? norms.query : norms.key;
  const uint32_t first = threadIdx.x % device::kWarp * kWidth;
  float squares = 0;
  for (uint32_t i = first; i < head_dim; i += device::kWarp * kWidth) {
    float value[kWidth];
    Load(x + i, value);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) squares += value[j] * value[j];
  }
  const float mean = device::WarpSum(squares) / static_cast<float>(head_dim);
  const float scale = 1.0f / sqrtf(mean + norms.eps);
  for (uint32_t i = first; i < head_dim; i += device::kWarp * kWidth) {
    float value[kWidth];
    float factor[kWidth];
    Load(x + i, value);
    Load(weight + i, factor);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) value[j] *= scale * factor[j];
    StoreAll(value, x + i);
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    ScaleQueriesKernel(float* qkv, size_t stride, uint32_t cols, QueryScale scale,
                       const AppendSlot* slots) {
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  const uint32_t i = (blockIdx.y * kThreads + threadIdx.x) * kWidth;
  const uint32_t contexts = slots[blockIdx.x].position / scale.original_context;
  if (i >= cols || contexts == 0) return;
  const float factor = 1.0f + scale.beta * logf(1.0f + static_cast<float>(contexts));
  float* x = qkv + blockIdx.x * stride + i;
  float value[kWidth];
  Load(x, value);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) value[j] *= factor;
  StoreAll(value, x);
}

}  // namespace

absl::Status NormHeads(Stream stream, Tensor qkv, const AttentionShape& shape,
                       const HeadNorms& norms) {
  const uint32_t heads = shape.heads + shape.kv_heads;
  if (qkv.type != DataType::kFloat32 || qkv.cols != (heads + shape.kv_heads) * shape.head_dim) {
    return device::Unserved("rows must be float32 queries, keys and values to normalise heads");
  }
  return WithWidth<4>(AllDivisible(4, shape.head_dim, qkv.stride), [&](auto width) {
    const dim3 grid(qkv.rows, device::Blocks(heads, kThreads / device::kWarp));
    return device::LaunchOverlapping("NormHeads", stream, grid, kThreads, NormHeadsKernel<width>,
                                     static_cast<float*>(qkv.data), qkv.stride, shape.heads, heads,
                                     shape.head_dim, norms);
  });
}

absl::Status ScaleQueries(Stream stream, Tensor qkv, const AttentionShape& shape,
                          const QueryScale& scale, DeviceArray<AppendSlot> slots) {
  const uint32_t queries = shape.heads * shape.head_dim;
  if (qkv.type != DataType::kFloat32 || qkv.cols < queries || qkv.rows < slots.size) {
    return device::Unserved("rows must be float32 queries, keys and values to scale queries");
  }
  return WithWidth<4>(AllDivisible(4, queries, qkv.stride), [&](auto width) {
    const dim3 grid(slots.size, device::Blocks(queries, kThreads * width));
    return device::LaunchOverlapping("ScaleQueries", stream, grid, kThreads,
                                     ScaleQueriesKernel<width>, static_cast<float*>(qkv.data),
                                     qkv.stride, queries, scale, slots.data);
  });
}

}  // namespace folio::kernels::cuda
