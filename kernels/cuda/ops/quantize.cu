// This kernel turns rows of activations into E4M3 with a scale for each row.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/ops.h"

namespace folio::kernels::cuda {
namespace {

using device::Load;
using device::StoreAll;

constexpr int kQuantizeThreads = 256;
constexpr int kAtOnce = 8;  // numbers of 16 bytes

// A block reads its row twice, the second time from the cache.
template <typename T>
__global__ void __launch_bounds__(kQuantizeThreads)
    QuantizeRowsKernel(const T* in, size_t in_stride, e4m3* out, size_t out_stride, float* scales,
                       uint32_t cols) {
  __shared__ float scratch[kQuantizeThreads / device::kWarp];
  constexpr uint32_t kStep = kQuantizeThreads * kAtOnce;
  const T* row = in + blockIdx.x * in_stride;
  float most = kLeastQuantized;
  for (uint32_t i = threadIdx.x * kAtOnce; i < cols; i += kStep) {
    float x[kAtOnce];
    Load(row + i, x);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const float size = fabsf(x[j]);
      if (size > most) most = size;  // false for NaN
    }
  }
  most = device::BlockMax<kQuantizeThreads>(most, scratch);
  const float inverse = e4m3::kMax / most;
  for (uint32_t i = threadIdx.x * kAtOnce; i < cols; i += kStep) {
    float x[kAtOnce];
    Load(row + i, x);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) x[j] = __fmul_rn(x[j], inverse);
    StoreAll(x, out + blockIdx.x * out_stride + i);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = most / e4m3::kMax;
}

}  // namespace

absl::Status QuantizeRows(Stream stream, ConstTensor in, Tensor out) {
  if (out.type != DataType::kE4M3 || out.scales == nullptr || in.cols != out.cols ||
      in.rows > out.rows) {
    return device::Unserved("quantised rows must be E4M3 with scales, of the input's shape");
  }
  if (in.cols % kE4M3Multiple != 0 || in.stride % kE4M3Multiple != 0 ||
      out.stride % kE4M3Multiple != 0) {
    return device::Unserved(absl::StrCat("rows of ", in.cols, " numbers, ", in.stride, " and ",
                                         out.stride, " apart, are not multiples of ", kE4M3Multiple,
                                         " as quantised rows must be"));
  }
  return device::WithStorage(in.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return device::Launch("QuantizeRows", stream, dim3(in.rows), kQuantizeThreads,
                          QuantizeRowsKernel<T>, static_cast<const T*>(in.data), in.stride,
                          static_cast<e4m3*>(out.data), out.stride, out.scales, in.cols);
  });
}

}  // namespace folio::kernels::cuda
