// These kernels turn one row into one row: embedding, normalisation, biases and gates.
#include "kernels/cuda/device/glu.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/widths.cuh"
#include "kernels/cuda/ops/ops.h"

namespace folio::kernels::cuda {
namespace {

using device::AllDivisible;
using device::BlockSum;
using device::Load;
using device::Pack;
using device::StoreAll;
using device::WithWidth;

constexpr int kThreads = 256;

template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    EmbedKernel(const T* table, size_t table_stride, uint32_t first_id, uint32_t table_rows,
                const uint32_t* ids, float scale, float* out, size_t out_stride, uint32_t cols) {
  const uint32_t row = ids[blockIdx.x] - first_id;  // too large where the id is below
  const bool here = row < table_rows;
  for (uint32_t i = threadIdx.x * kWidth; i < cols; i += kThreads * kWidth) {
    float x[kWidth] = {};
    if (here) Load(table + row * table_stride + i, x);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) x[j] *= scale;
    StoreAll(x, out + blockIdx.x * out_stride + i);
  }
}

template <typename In, typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    AddRmsNormKernel(float* hidden, size_t hidden_stride, const In* delta, size_t delta_stride,
                     const float* weight, float eps, T* out, size_t out_stride, uint32_t cols) {
  __shared__ float scratch[kThreads / device::kWarp];
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  float* x = hidden + blockIdx.x * hidden_stride;
  float squares = 0;
  for (uint32_t i = threadIdx.x * kWidth; i < cols; i += kThreads * kWidth) {
    float value[kWidth];
    Load(x + i, value);
    if (delta != nullptr) {
      float more[kWidth];
      Load(delta + blockIdx.x * delta_stride + i, more);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) value[j] += more[j];
      StoreAll(value, x + i);
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) squares += value[j] * value[j];
  }
  const float mean = BlockSum<kThreads>(squares, scratch) / static_cast<float>(cols);
  const float scale = 1.0f / sqrtf(mean + eps);
  // Each thread reads back what it wrote.
  for (uint32_t i = threadIdx.x * kWidth; i < cols; i += kThreads * kWidth) {
    float value[kWidth];
    float factor[kWidth];
    Load(x + i, value);
    Load(weight + i, factor);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) value[j] = value[j] * scale * factor[j];
    StoreAll(value, out + blockIdx.x * out_stride + i);
  }
}

// Moves one number at a time, which is slow but rarely needed.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    RoundingLossKernel(const float* hidden, size_t hidden_stride, const float* weight, float eps,
                       const T* rounded, size_t rounded_stride, T* out, size_t out_stride,
                       uint32_t cols) {
  __shared__ float scratch[kThreads / device::kWarp];
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  const float* x = hidden + blockIdx.x * hidden_stride;
  float squares = 0;
  for (uint32_t i = threadIdx.x; i < cols; i += kThreads) squares += x[i] * x[i];
  const float mean = BlockSum<kThreads>(squares, scratch) / static_cast<float>(cols);
  const float scale = 1.0f / sqrtf(mean + eps);
  for (uint32_t i = threadIdx.x; i < cols; i += kThreads) {
    const float kept = device::ToFloat(rounded[blockIdx.x * rounded_stride + i]);
    device::Store(x[i] * scale * weight[i] - kept, out[blockIdx.x * out_stride + i]);
  }
}

// Each thread reads back what it has read before.
template <typename In, int kWidth>
__global__ void __launch_bounds__(kThreads)
    AddNormedKernel(const In* added, size_t added_stride, const float* weight, float eps,
                    float* hidden, size_t hidden_stride, uint32_t cols) {
  __shared__ float scratch[kThreads / device::kWarp];
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  const In* x = added + blockIdx.x * added_stride;
  float squares = 0;
  for (uint32_t i = threadIdx.x * kWidth; i < cols; i += kThreads * kWidth) {
    float value[kWidth];
    Load(x + i, value);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) squares += value[j] * value[j];
  }
  const float mean = BlockSum<kThreads>(squares, scratch) / static_cast<float>(cols);
  const float scale = 1.0f / sqrtf(mean + eps);
  float* to = hidden + blockIdx.x * hidden_stride;
  for (uint32_t i = threadIdx.x * kWidth; i < cols; i += kThreads * kWidth) {
    float value[kWidth];
    float factor[kWidth];
    float sum[kWidth];
    Load(x + i, value);
    Load(weight + i, factor);
    Load(to + i, sum);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[j] += value[j] * scale * factor[j];
    StoreAll(sum, to + i);
  }
}

template <typename Gate, typename In, typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    GluKernel(const In* gate_up, size_t in_stride, T* out, size_t out_stride, uint32_t cols) {
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  const uint32_t i = (blockIdx.y * kThreads + threadIdx.x) * kWidth;
  if (i >= cols) return;
  const In* row = gate_up + blockIdx.x * in_stride;
  float gate[kWidth];
  float up[kWidth];
  Load(row + i, gate);
  Load(row + cols + i, up);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) gate[j] = Gate::Of(gate[j]) * up[j];
  StoreAll(gate, out + blockIdx.x * out_stride + i);
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(float* rows, size_t stride, const float* bias, uint32_t cols) {
  device::LetNextKernelStart();
  device::WaitForEarlierKernels();
  const uint32_t i = (blockIdx.y * kThreads + threadIdx.x) * kWidth;
  if (i >= cols) return;
  float* row = rows + blockIdx.x * stride;
  float value[kWidth];
  float more[kWidth];
  Load(row + i, value);
  Load(bias + i, more);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) value[j] += more[j];
  StoreAll(value, row + i);
}

}  // namespace

absl::Status Embed(Stream stream, ConstTensor embedding, uint32_t first_id,
                   DeviceArray<uint32_t> ids, float scale, Tensor out) {
  if (out.type != DataType::kFloat32 || out.cols != embedding.cols || out.rows < ids.size) {
    return device::Unserved(
        "the embedding's output must be float32 rows of the embedding's length");
  }
  const bool packs = AllDivisible(8, out.cols, out.stride, embedding.stride);
  return device::WithStorage(embedding.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return WithWidth<8>(packs, [&](auto width) {
      return device::Launch("Embed", stream, dim3(ids.size), kThreads, EmbedKernel<T, width>,
                            static_cast<const T*>(embedding.data), embedding.stride, first_id,
                            embedding.rows, ids.data, scale, static_cast<float*>(out.data),
                            out.stride, out.cols);
    });
  });
}

absl::Status AddRmsNorm(Stream stream, Tensor hidden, ConstTensor delta, const float* weight,
                        float eps, Tensor out) {
  if (hidden.type != DataType::kFloat32 || hidden.cols != out.cols || hidden.rows > out.rows) {
    return device::Unserved("the input of RmsNorm must be float32 rows of the result's length");
  }
  if (delta.data == nullptr) {
    delta = {nullptr, DataType::kFloat32, hidden.rows, hidden.cols, hidden.cols};
  }
  if (delta.cols != hidden.cols || delta.rows < hidden.rows) {
    return device::Unserved("delta must have the shape of hidden");
  }
  // A delta without data has whole packs whenever the rest has.
  const bool packs = AllDivisible(4, hidden.cols, hidden.stride, delta.stride, out.stride);
  return device::WithInput(delta.type, out.type, [&](auto in, auto stored) {
    using In = typename decltype(in)::Type;
    using T = typename decltype(stored)::Type;
    return WithWidth<4>(packs, [&](auto width) {
      return device::LaunchOverlapping(
          "AddRmsNorm", stream, dim3(hidden.rows), kThreads, AddRmsNormKernel<In, T, width>,
          static_cast<float*>(hidden.data), hidden.stride, static_cast<const In*>(delta.data),
          delta.stride, weight, eps, static_cast<T*>(out.data), out.stride, out.cols);
    });
  });
}

absl::Status AddNormed(Stream stream, ConstTensor added, const float* weight, float eps,
                       Tensor hidden) {
  if (hidden.type != DataType::kFloat32 || hidden.cols != added.cols || hidden.rows < added.rows) {
    return device::Unserved(
        "rows that are normalised and added must have the shape of float32 rows");
  }
  const bool packs = AllDivisible(4, added.cols, added.stride, hidden.stride);
  return device::WithInput(added.type, DataType::kBf16, [&](auto in, auto) {
    using In = typename decltype(in)::Type;
    return WithWidth<4>(packs, [&](auto width) {
      return device::LaunchOverlapping(
          "AddNormed", stream, dim3(added.rows), kThreads, AddNormedKernel<In, width>,
          static_cast<const In*>(added.data), added.stride, weight, eps,
          static_cast<float*>(hidden.data), hidden.stride, added.cols);
    });
  });
}

absl::Status RoundingLoss(Stream stream, ConstTensor hidden, const float* weight, float eps,
                          ConstTensor rounded, Tensor out) {
  if (hidden.type != DataType::kFloat32 || rounded.type != out.type || hidden.cols != out.cols ||
      rounded.cols != out.cols || rounded.rows < hidden.rows || out.rows < hidden.rows) {
    return device::Unserved("the rounding loss must have the shape and type of the rounded rows");
  }
  return device::WithStorage(out.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return device::LaunchOverlapping("RoundingLoss", stream, dim3(hidden.rows), kThreads,
                                     RoundingLossKernel<T>, static_cast<const float*>(hidden.data),
                                     hidden.stride, weight, eps,
                                     static_cast<const T*>(rounded.data), rounded.stride,
                                     static_cast<T*>(out.data), out.stride, out.cols);
  });
}

absl::Status AddBias(Stream stream, Tensor rows, const float* bias) {
  if (rows.type != DataType::kFloat32) {
    return device::Unserved("rows must be float32 to add a bias");
  }
  return WithWidth<4>(AllDivisible(4, rows.cols, rows.stride), [&](auto width) {
    const dim3 grid(rows.rows, device::Blocks(rows.cols, kThreads * width));
    return device::LaunchOverlapping("AddBias", stream, grid, kThreads, AddBiasKernel<width>,
                                     static_cast<float*>(rows.data), rows.stride, bias, rows.cols);
  });
}

absl::Status Glu(Stream stream, Activation activation, ConstTensor gate_up, Tensor out) {
  if (gate_up.cols != 2 * out.cols || gate_up.rows > out.rows) {
    return device::Unserved("the rows of gates must hold a gate and an up for each result");
  }
  return device::WithInput(gate_up.type, out.type, [&](auto in, auto stored) {
    using In = typename decltype(in)::Type;
    using T = typename decltype(stored)::Type;
    constexpr int kPack = 16 / sizeof(In);
    const bool packs = AllDivisible(kPack, out.cols, out.stride, gate_up.stride);
    return WithWidth<kPack>(packs, [&](auto width) {
      return device::WithActivation(activation, [&](auto gate) {
        const dim3 grid(gate_up.rows, device::Blocks(out.cols, kThreads * width));
        return device::LaunchOverlapping("Glu", stream, grid, kThreads,
                                         GluKernel<decltype(gate), In, T, width>,
                                         static_cast<const In*>(gate_up.data), gate_up.stride,
                                         static_cast<T*>(out.data), out.stride, out.cols);
      });
    });
  });
}

}  // namespace folio::kernels::cuda
