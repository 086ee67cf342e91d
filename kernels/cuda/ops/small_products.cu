// One kernel computes all products of few rows. A tile is the results of 16 outputs, or of 16 gates
// and their ups, and the warps of a block divide the columns of its weights, so that each
// multiprocessor has enough loads under way to read memory at its full speed. There are no more
// blocks than run at once. Each computes several tiles, and reads the first weights of the next one
// while it adds the sums of the one before, so that memory does not wait for the ends of tiles.
#include <algorithm>

#include "kernels/cuda/device/glu.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/cuda/device/product_operands.cuh"
#include "kernels/cuda/device/product_sums.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/quantized_products.h"
#include "kernels/cuda/ops/small_products.h"

namespace folio::kernels::cuda {
namespace {

using device::ColumnOf;
using device::kTileOutputs;
using device::kWarp;
using device::LineOf;
using device::Lines;
using device::Matrix;
using device::NormedRows;
using device::PlainRows;
using device::Sums;
using device::TileRows;
using device::Weights;

constexpr int kWarps = 16;
constexpr uint32_t kThreads = kWarps * kWarp;
static_assert(2 * device::kTileRows == kMaxSmallRows);
// A multiprocessor has room for so many blocks. One of 16 warps reads memory faster than two of 8.
constexpr uint32_t kBlocksEach = 1;

// Results take the sums of one output, or of a gate and its up, for one row.
template <typename T>
struct Stored {
  static constexpr int kTiles = 1;
  T* out;
  size_t stride;
  const float* bias;

  __device__ __forceinline__ void Put(uint32_t row, uint32_t output, const float (&sums)[1]) const {
    device::Store(bias != nullptr ? sums[0] + bias[output] : sums[0], out[row * stride + output]);
  }
};

struct Added {
  static constexpr int kTiles = 1;
  float* out;
  size_t stride;

  __device__ __forceinline__ void Put(uint32_t row, uint32_t output, const float (&sums)[1]) const {
    out[row * stride + output] += sums[0];
  }
};

template <typename Gate>
struct Gated {
  static constexpr int kTiles = 2;
  bf16* out;
  size_t stride;

  __device__ __forceinline__ void Put(uint32_t row, uint32_t output, const float (&sums)[2]) const {
    device::Store(Gate::Of(sums[0]) * sums[1], out[row * stride + output]);
  }
};

// Reads a tile's first weights.
template <typename Weight, int kTiles, int kAhead>
__device__ __forceinline__ void LoadFirst(const TileRows<Weight, kTiles>& rows, uint32_t cols,
                                          Weights<Weight, kTiles> (&weights)[kAhead]) {
#pragma unroll
  for (int i = 0; i < kAhead; ++i) weights[i].Load(rows, ColumnOf<Weight, kWarps>(i), cols);
}

// Adds the products of a line, whose first columns for this lane are `column` and its neighbours.
template <typename Input, typename Weight, int kRowTiles, int kTiles>
__device__ __forceinline__ void AddLine(const Input& in, uint32_t column,
                                        const Weights<Weight, kTiles>& weights,
                                        Sums<kRowTiles, kTiles>& sums) {
  constexpr int kPacks = Lines<Weight>::kPacks;
#pragma unroll
  for (int i = 0; i < 2 * kPacks; ++i) {
    const int half = i / kPacks;
    const int pack = i % kPacks;
    uint4 w[kTiles][2];
#pragma unroll
    for (int k = 0; k < 2 * kTiles; ++k) w[k / 2][k % 2] = weights.Pack(k / 2, k % 2, half, pack);
    const uint32_t at = column + half * (Lines<Weight>::kColumns / 2) + pack * device::kLoad;
#pragma unroll
    for (int rows = 0; rows < kRowTiles; ++rows) {
      uint4 x[Input::kParts];
      in.Load(rows * device::kTileRows + threadIdx.x % kWarp / 4, at, x, sums.squares[rows]);
#pragma unroll
      for (int k = 0; k < Input::kParts * kTiles; ++k) {
        const auto& tile = w[k % kTiles];
        device::MultiplyPacks(tile[0], tile[1], x[k / kTiles], sums.at[rows][k % kTiles]);
      }
    }
  }
}

// Adds the products of this warp's columns, and reads the weights that follow.
template <typename Input, typename Weight, int kRowTiles, int kTiles, int kAhead>
__device__ __forceinline__ void AddColumns(const Input& in, const TileRows<Weight, kTiles>& rows,
                                           Weights<Weight, kTiles> (&weights)[kAhead],
                                           Sums<kRowTiles, kTiles>& sums) {
  for (uint32_t turn = 0; LineOf<Weight, kWarps>(turn) < in.cols; turn += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (LineOf<Weight, kWarps>(turn + i) >= in.cols) break;
      AddLine(in, ColumnOf<Weight, kWarps>(turn + i), weights[i], sums);
      weights[i].Load(rows, ColumnOf<Weight, kWarps>(turn + i + kAhead), in.cols);
    }
  }
}

template <int kRowTiles, typename Input, typename Weight, typename Result>
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    SmallProductKernel(Input in, Matrix<Weight> weight, Result result) {
  constexpr int kTiles = Result::kTiles;
  constexpr int kAhead = 2 / kTiles;  // lines of weights under way
  __shared__ device::Parts<kWarps, kRowTiles, kTiles> parts;
  device::LetNextKernelStart();
  const uint32_t tiles = (weight.outputs + kTileOutputs - 1) / kTileOutputs;
  uint32_t tile = blockIdx.x;
  TileRows<Weight, kTiles> rows(weight, tile);
  // No kernel writes weights, so that they are read while the kernel before still runs.
  Weights<Weight, kTiles> weights[kAhead];
  LoadFirst(rows, in.cols, weights);
  device::WaitForEarlierKernels();
  while (true) {
    Sums<kRowTiles, kTiles> sums;
    AddColumns(in, rows, weights, sums);
    const uint32_t next = tile + gridDim.x;
    if (next < tiles) {
      rows = TileRows<Weight, kTiles>(weight, next);
      LoadFirst(rows, in.cols, weights);
    }
    device::PutParts<Input>(sums, parts);
    __syncthreads();
    device::PutResults(in, parts, tile * kTileOutputs, weight.outputs, weight.scales, result);
    if (next >= tiles) return;
    tile = next;
    __syncthreads();  // before the parts are written again
  }
}

// `outputs` are the columns of the result.
absl::Status CheckSmall(const SmallInput& in, const ConstTensor& weight, const Tensor& out,
                        uint32_t outputs) {
  const bool normed = in.norm != nullptr;
  if (in.rows.rows > kMaxSmallRows) {
    return device::Unserved(
        absl::StrCat("products of few rows serve ", kMaxSmallRows, " rows, not ", in.rows.rows));
  }
  if (in.processors == 0) {
    return device::Unserved("products of few rows need the number of the GPU's multiprocessors");
  }
  if (in.rows.type != (normed ? DataType::kFloat32 : DataType::kBf16) ||
      (weight.type != DataType::kBf16 && weight.type != DataType::kE4M3)) {
    return device::Unserved(
        "products of few rows multiply weights in bf16 or E4M3 by bf16 rows, or by float32 rows "
        "with a norm");
  }
  if (weight.type == DataType::kE4M3 && weight.scales == nullptr) {
    return device::Unserved("weights in E4M3 need a scale for each row");
  }
  if (in.exact && !normed) return device::Unserved("only rows with a norm are multiplied exactly");
  if (in.exact && (weight.parts != nullptr || weight.type == DataType::kE4M3)) {
    return device::Unserved("quantised weights are multiplied by rounded rows");
  }
  if (in.rows.cols != weight.cols || weight.cols == 0 || outputs == 0 || out.cols != outputs ||
      out.rows < in.rows.rows) {
    return device::Unserved(absl::StrCat("[", in.rows.rows, ", ", in.rows.cols, "] times [",
                                         weight.rows, ", ", weight.cols, "] transposed is not [",
                                         out.rows, ", ", out.cols, "]"));
  }
  const uint32_t multiple = weight.type == DataType::kE4M3 ? kE4M3Multiple : device::kLoad;
  if (weight.cols % multiple != 0) {
    return device::Unserved(absl::StrCat("products of few rows need a multiple of ", multiple,
                                         " columns, not ", weight.cols));
  }
  if (!RowsAreAligned(in.rows) || (weight.parts == nullptr && !RowsAreAligned(weight)) ||
      reinterpret_cast<uintptr_t>(in.norm) % 16 != 0) {
    return device::Unserved("rows must begin at multiples of 16 bytes");
  }
  return absl::OkStatus();
}

template <typename Weight, typename Input, typename Result>
absl::Status StartOf(Stream stream, uint32_t processors, const Input& in, const ConstTensor& weight,
                     const Result& result) {
  const uint32_t outputs = weight.rows / Result::kTiles;
  const uint32_t tiles = device::Blocks(outputs, kTileOutputs);
  const dim3 grid(in.count == 0 ? 0 : std::min(tiles, kBlocksEach * processors));
  const Matrix<Weight> matrix{static_cast<const Weight*>(weight.data), weight.stride, outputs,
                              weight.scales};
  return device::WithRowTiles(in.count, [&](auto row_tiles) {
    return device::LaunchOverlapping("SmallProduct", stream, grid, kThreads,
                                     SmallProductKernel<row_tiles, Input, Weight, Result>, in,
                                     matrix, result);
  });
}

template <typename Input, typename Result>
absl::Status Start(Stream stream, uint32_t processors, const Input& in, const ConstTensor& weight,
                   const Result& result) {
  if constexpr (Input::kParts == 1) {
    if (weight.type == DataType::kE4M3) {
      return StartOf<e4m3>(stream, processors, in, weight, result);
    }
  }
  return StartOf<bf16>(stream, processors, in, weight, result);
}

template <typename Result>
absl::Status StartPlain(Stream stream, const SmallInput& in, const ConstTensor& weight,
                        const Result& result) {
  const PlainRows rows{static_cast<const bf16*>(in.rows.data), in.rows.stride, in.rows.rows,
                       in.rows.cols};
  return Start(stream, in.processors, rows, weight, result);
}

template <int kParts, typename Result>
absl::Status StartNormed(Stream stream, const SmallInput& in, const ConstTensor& weight,
                         const Result& result) {
  const NormedRows<kParts> rows{static_cast<const float*>(in.rows.data),
                                in.rows.stride,
                                in.rows.rows,
                                in.rows.cols,
                                in.norm,
                                in.eps};
  return Start(stream, in.processors, rows, weight, result);
}

}  // namespace

absl::Status SmallProduct(Stream stream, const SmallInput& in, ConstTensor weight,
                          const float* bias, Tensor out) {
  if (absl::Status status = CheckSmall(in, weight, out, weight.rows); !status.ok()) return status;
  const bool rounds = out.type == DataType::kBf16 && in.norm == nullptr;
  if (out.type != DataType::kFloat32 && !rounds) {
    return device::Unserved("a product is float32, or bf16 without a norm");
  }
  if (weight.parts != nullptr) return QuantizedProduct(stream, in, weight, bias, out);
  if (rounds) {
    const Stored<bf16> result{static_cast<bf16*>(out.data), out.stride, bias};
    return StartPlain(stream, in, weight, result);
  }
  const Stored<float> result{static_cast<float*>(out.data), out.stride, bias};
  if (in.norm == nullptr) return StartPlain(stream, in, weight, result);
  return in.exact ? StartNormed<2>(stream, in, weight, result)
                  : StartNormed<1>(stream, in, weight, result);
}

absl::Status AddSmallProduct(Stream stream, const SmallInput& in, ConstTensor weight, Tensor out) {
  if (absl::Status status = CheckSmall(in, weight, out, weight.rows); !status.ok()) return status;
  if (out.type != DataType::kFloat32 || in.norm != nullptr) {
    return device::Unserved("a product is added to float32, and without a norm");
  }
  if (weight.parts != nullptr) return AddQuantizedProduct(stream, in, weight, out);
  return StartPlain(stream, in, weight, Added{static_cast<float*>(out.data), out.stride});
}

absl::Status SmallGlu(Stream stream, const SmallInput& in, Activation activation,
                      ConstTensor gate_up, Tensor out) {
  absl::Status status = CheckSmall(in, gate_up, out, gate_up.rows / 2);
  if (!status.ok()) return status;
  if (gate_up.rows % 2 != 0 || out.type != DataType::kBf16 || in.exact) {
    return device::Unserved(
        "the weights of gates hold as many gates as ups, and the result is bf16");
  }
  if (gate_up.parts != nullptr) return QuantizedGlu(stream, in, activation, gate_up, out);
  return device::WithActivation(activation, [&](auto gate) {
    const Gated<decltype(gate)> result{static_cast<bf16*>(out.data), out.stride};
    return in.norm == nullptr ? StartPlain(stream, in, gate_up, result)
                              : StartNormed<1>(stream, in, gate_up, result);
  });
}

}  // namespace folio::kernels::cuda
