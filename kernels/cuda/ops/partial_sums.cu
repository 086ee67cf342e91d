#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/partial_sums.h"

namespace folio::kernels::cuda {
namespace {

using device::Load;
using device::StoreAll;

// There are as few blocks as rows, so that each has many threads to load with.
constexpr int kThreads = 512;
constexpr int kWidth = 4;
constexpr uint32_t kTurn = kThreads * kWidth;  // columns that a block loads at once
static_assert(kMaxPartCols == 4 * kTurn);

// The least tile of results that a block of cuBLASLt has. It takes the rows of a whole step, since
// it would otherwise read the weights more than once.
constexpr uint32_t kTileCols = 64;
// Columns of the weights that a block multiplies in a step of its loop.
constexpr uint32_t kPieceMultiple = 64;

// A row is held in registers, kTurns packs for each thread.
template <typename T, int kTurns>
__global__ void __launch_bounds__(kThreads)
    AddPartsRmsNormKernel(const float* parts, uint32_t count, float* hidden, size_t hidden_stride,
                          const float* weight, float eps, T* out, size_t out_stride,
                          uint32_t cols) {
  __shared__ float scratch[kThreads / device::kWarp];
  device::LetNextKernelStart();
  const uint32_t first = threadIdx.x * kWidth;
  float factor[kTurns][kWidth] = {};
  if (weight != nullptr) {  // no kernel writes it
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (first + turn * kTurn < cols) Load(weight + first + turn * kTurn, factor[turn]);
    }
  }
  device::WaitForEarlierKernels();
  float* x = hidden + blockIdx.x * hidden_stride + first;
  float before[kTurns][kWidth] = {};
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if (first + turn * kTurn < cols) Load(x + turn * kTurn, before[turn]);
  }
  float sum[kTurns][kWidth] = {};
  const size_t size = size_t{gridDim.x} * cols;  // of a part
#pragma unroll 2
  for (uint32_t part = 0; part < count; ++part) {
    const float* row = parts + part * size + size_t{blockIdx.x} * cols + first;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (first + turn * kTurn >= cols) continue;
      float more[kWidth];
      Load(row + turn * kTurn, more);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[turn][j] += more[j];
    }
  }
  float squares = 0;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if (first + turn * kTurn >= cols) continue;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      sum[turn][j] += before[turn][j];
      squares += sum[turn][j] * sum[turn][j];
    }
    StoreAll(sum[turn], x + turn * kTurn);
  }
  if (weight == nullptr) return;
  const float mean = device::BlockSum<kThreads>(squares, scratch) / static_cast<float>(cols);
  const float scale = 1.0f / sqrtf(mean + eps);
  T* normed = out + blockIdx.x * out_stride + first;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    if (first + turn * kTurn >= cols) continue;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[turn][j] = sum[turn][j] * scale * factor[turn][j];
    StoreAll(sum[turn], normed + turn * kTurn);
  }
}

// Calls call(kTurns) with the least of 1, 2 and 4 turns for rows of `cols`.
template <typename Call>
absl::Status WithTurns(uint32_t cols, Call&& call) {
  if (cols <= kTurn) return call(std::integral_constant<int, 1>());
  if (cols <= 2 * kTurn) return call(std::integral_constant<int, 2>());
  return call(std::integral_constant<int, 4>());
}

}  // namespace

// A product of few rows takes the time in which its weights are read, if as many blocks read as
// there are multiprocessors, and seven eighths of them are nearly as fast. The least number of
// parts that gives so many blocks is the best, because each part is written and read once more:
//
//   bytes of the weights           2 n k
//   bytes of the parts' traffic    (4 + 4) parts rows n
//
// That traffic stays in the L2 cache, which is at least twice as fast as memory. Up to as many
// bytes as the weights have it therefore costs at most half of their time, in the worst case. With
// 4 parts rows <= k it has no more of them. On an H100 the output product of Llama-3.2-1B with 128
// rows just satisfies this: k is 2,048, and 4 parts move 8.4 MB beside weights of 8.4 MB. The
// product down of Llama-3.1-8B moves as much for its 2 parts, beside weights of 117 MB.
uint32_t PartsOfProduct(uint32_t rows, uint32_t n, uint32_t k, uint32_t processors) {
  const uint64_t tiles = device::Blocks(n, kTileCols);
  const auto occupied = [&](uint32_t parts) {
    return tiles * parts * 8 >= uint64_t{processors} * 7;
  };
  if (rows > kMaxRowsInParts || n % kWidth != 0 || n > kMaxPartCols || occupied(1)) return 1;
  uint32_t best = 1;
  for (uint32_t parts = 2; parts <= kMaxParts && !occupied(best); ++parts) {
    const bool even = k % (parts * kPieceMultiple) == 0;
    if (even && uint64_t{4} * parts * rows <= k) best = parts;
  }
  return best;
}

absl::Status AddPartsRmsNorm(Stream stream, PartialSums parts, Tensor hidden, const float* weight,
                             float eps, Tensor out) {
  if (hidden.type != DataType::kFloat32 || parts.cols != hidden.cols || parts.rows != hidden.rows ||
      out.cols != hidden.cols || out.rows < hidden.rows) {
    return device::Unserved("parts of a product must have the shape of float32 hidden states");
  }
  if (parts.count == 0 || hidden.cols > kMaxPartCols || hidden.cols % kWidth != 0 ||
      hidden.stride % kWidth != 0 || out.stride % kWidth != 0) {
    return device::Unserved(absl::StrCat("parts of a product must have at most ", kMaxPartCols,
                                         " columns, a multiple of ", kWidth));
  }
  return device::WithStorage(out.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return WithTurns(hidden.cols, [&](auto turns) {
      return device::LaunchOverlapping("AddPartsRmsNorm", stream, dim3(hidden.rows), kThreads,
                                       AddPartsRmsNormKernel<T, turns>, parts.data, parts.count,
                                       static_cast<float*>(hidden.data), hidden.stride, weight, eps,
                                       static_cast<T*>(out.data), out.stride, hidden.cols);
    });
  });
}

}  // namespace folio::kernels::cuda
