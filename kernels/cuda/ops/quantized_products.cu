// The twin of small_products.cu for weights that are quantised. A tile is 16 outputs, or 16 gates
// and their ups, and the warps of a block divide its cells of 64 columns. The first cells of the
// next tile are read while the sums of the one before are added.
#include <algorithm>

#include "kernels/cuda/device/glu.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/cuda/device/product_operands.cuh"
#include "kernels/cuda/device/product_sums.cuh"
#include "kernels/cuda/device/quantized_cells.cuh"
#include "kernels/cuda/device/quantized_views.cuh"
#include "kernels/cuda/ops/quantized_products.h"

namespace folio::kernels::cuda {
namespace {

using device::kTileOutputs;
using device::kWarp;
using device::NormedRows;
using device::PlainRows;
using device::QuantizedCell;
using device::QuantizedView;
using device::Sums;

constexpr int kWarps = 16;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr uint32_t kBlocksEach = 1;  // of a multiprocessor, as for weights in bf16
static_assert(kTileOutputs == kQuantizedTile);

// The weights of a product: a part of a matrix, or the gates and the ups.
template <int kTiles>
struct Views {
  QuantizedView at[kTiles];
};

// Results take the sums of one output, or of a gate and its up, for one row.
struct Summed {
  static constexpr int kTiles = 1;
  float* sums;    // these, or
  bf16* rounded;  // these
  size_t stride;
  const float* bias;
  bool adds;

  __device__ __forceinline__ void Put(uint32_t row, uint32_t output,
                                      const float (&totals)[1]) const {
    const size_t at = row * stride + output;
    const float sum = bias != nullptr ? totals[0] + bias[output] : totals[0];
    if (rounded != nullptr) {
      device::Store(sum, rounded[at]);
    } else {
      sums[at] = adds ? sums[at] + sum : sum;
    }
  }
};

struct Gated {
  static constexpr int kTiles = 2;
  bf16* out;
  size_t stride;
  bool gelu;

  __device__ __forceinline__ void Put(uint32_t row, uint32_t output,
                                      const float (&totals)[2]) const {
    const float gate = gelu ? device::Gelu::Of(totals[0]) : device::Silu::Of(totals[0]);
    device::Store(gate * totals[1], out[row * stride + output]);
  }
};

// Four neighbouring numbers of a row, and zeros beyond its ends. `cols` is a multiple of four.
__device__ __forceinline__ void LoadFour(const PlainRows& in, uint32_t row, uint32_t at,
                                         uint32_t (&x)[2], float& squares) {
  x[0] = x[1] = 0;
  if (row >= in.count || at >= in.cols) return;
  const auto* pairs =
      reinterpret_cast<const device::Pack<uint32_t, 2>*>(in.rows + row * in.stride + at);
  x[0] = pairs->at[0];
  x[1] = pairs->at[1];
}

__device__ __forceinline__ void LoadFour(const NormedRows<1>& in, uint32_t row, uint32_t at,
                                         uint32_t (&x)[2], float& squares) {
  x[0] = x[1] = 0;
  if (row >= in.count || at >= in.cols) return;
  float numbers[4];
  float factors[4];
  bf16 rounded[4];
  device::Load(in.rows + row * in.stride + at, numbers);
  device::Load(in.norm + at, factors);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    squares += numbers[i] * numbers[i];
    device::Store(numbers[i] * factors[i], rounded[i]);
  }
  x[0] = device::Pair(rounded[0], rounded[1]);
  x[1] = device::Pair(rounded[2], rounded[3]);
}

// The warps of a block read cells in turn.
__device__ __forceinline__ uint32_t CellOf(uint32_t turn) {
  return turn * kWarps + threadIdx.x / kWarp;
}

template <typename Codes, int kTiles, int kAhead>
__device__ __forceinline__ void LoadFirst(const Views<kTiles>& weight, uint32_t tile,
                                          QuantizedCell<Codes> (&cells)[kAhead][kTiles]) {
#pragma unroll
  for (int i = 0; i < kAhead * kTiles; ++i) {
    cells[i / kTiles][i % kTiles].Load(weight.at[i % kTiles], tile, CellOf(i / kTiles));
  }
}

// Adds the products of a cell, group by group.
template <typename Codes, typename Input, int kRowTiles, int kTiles>
__device__ __forceinline__ void AddCell(const Input& in, const Views<kTiles>& weight,
                                        const QuantizedCell<Codes> (&cell)[kTiles], uint32_t column,
                                        Sums<kRowTiles, kTiles>& sums) {
  constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  const uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (int group = 0; group < Codes::kGroups; ++group) {
    float products[kRowTiles][kTiles][4] = {};
    float inputs[kRowTiles][4] = {};  // sums of the group's inputs, if there are offsets
#pragma unroll
    for (int i = 0; i < Codes::kSixteens; ++i) {
      const int s = group * Codes::kSixteens + i;
      uint32_t x[kRowTiles][2];
#pragma unroll
      for (int rows = 0; rows < kRowTiles; ++rows) {
        LoadFour(in, rows * device::kTileRows + lane / 4, column + 16 * s + lane % 4 * 4, x[rows],
                 sums.squares[rows]);
        if (weight.at[0].offsets) device::MultiplyTiles(kOnes, x[rows], inputs[rows]);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        uint32_t codes[4];
        cell[tile].Tile(weight.at[tile], s, codes);
#pragma unroll
        for (int rows = 0; rows < kRowTiles; ++rows) {
          device::MultiplyTiles(codes, x[rows], products[rows][tile]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const QuantizedView& of = weight.at[i / 2];
      const float step = cell[i / 2].Step(of, group, i % 2);
      const float offset = of.offsets ? cell[i / 2].Offset(of, group, i % 2) : 0;
#pragma unroll
      for (int k = 0; k < 2 * kRowTiles; ++k) {
        const int rows = k / 2;
        float& sum = sums.at[rows][i / 2][i % 2 * 2 + k % 2];
        sum += step * products[rows][i / 2][i % 2 * 2 + k % 2];
        if (of.offsets) sum -= offset * inputs[rows][k % 2];
      }
    }
  }
}

template <int kRowTiles, typename Codes, typename Input, typename Result>
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    QuantizedProductKernel(Input in, Views<Result::kTiles> weight, Result result) {
  constexpr int kTiles = Result::kTiles;
  constexpr int kAhead = 4 / kTiles / Codes::kRounds;  // cells under way
  __shared__ device::Parts<kWarps, kRowTiles, kTiles> parts;
  device::LetNextKernelStart();
  const uint32_t outputs = weight.at[0].outputs;
  const uint32_t tiles = (outputs + kTileOutputs - 1) / kTileOutputs;
  uint32_t tile = blockIdx.x;
  // No kernel writes weights, so that they are read while the kernel before still runs.
  QuantizedCell<Codes> cells[kAhead][kTiles] = {};
  LoadFirst(weight, tile, cells);
  device::WaitForEarlierKernels();
  while (true) {
    Sums<kRowTiles, kTiles> sums;
    for (uint32_t turn = 0; CellOf(turn) < weight.at[0].cells; turn += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const uint32_t cell = CellOf(turn + i);
        if (cell >= weight.at[0].cells) break;
        AddCell(in, weight, cells[i], cell * kQuantizedCell, sums);
#pragma unroll
        for (int k = 0; k < kTiles; ++k) {
          cells[i][k].Load(weight.at[k], tile, CellOf(turn + i + kAhead));
        }
      }
    }
    const uint32_t next = tile + gridDim.x;
    if (next < tiles) LoadFirst(weight, next, cells);
    device::PutParts<Input>(sums, parts);
    __syncthreads();
    device::PutResults(in, parts, tile * kTileOutputs, outputs, nullptr, result);
    if (next >= tiles) return;
    tile = next;
    __syncthreads();  // before the parts are written again
  }
}

template <typename Input, typename Result>
absl::Status Start(Stream stream, uint32_t processors, const Input& in,
                   const QuantizedFormat& format, const Views<Result::kTiles>& weight,
                   const Result& result) {
  const uint32_t tiles = device::Blocks(weight.at[0].outputs, kTileOutputs);
  const dim3 grid(in.count == 0 ? 0 : std::min(tiles, kBlocksEach * processors));
  return device::WithCodes(format, [&](auto codes) {
    return device::WithRowTiles(in.count, [&](auto row_tiles) {
      return device::LaunchOverlapping(
          "QuantizedProduct", stream, grid, kThreads,
          QuantizedProductKernel<row_tiles, decltype(codes), Input, Result>, in, weight, result);
    });
  });
}

template <typename Result>
absl::Status StartWith(Stream stream, const SmallInput& in, const QuantizedFormat& format,
                       const Views<Result::kTiles>& weight, const Result& result) {
  const ConstTensor& rows = in.rows;
  if (in.norm == nullptr) {
    const PlainRows plain{static_cast<const bf16*>(rows.data), rows.stride, rows.rows, rows.cols};
    return Start(stream, in.processors, plain, format, weight, result);
  }
  const NormedRows<1> normed{
      static_cast<const float*>(rows.data), rows.stride, rows.rows, rows.cols, in.norm, in.eps};
  return Start(stream, in.processors, normed, format, weight, result);
}

// A kernel for each part.
absl::Status Sum(Stream stream, const SmallInput& in, const ConstTensor& weight, const float* bias,
                 bool adds, const Tensor& out) {
  if (absl::Status status = CheckQuantized(weight); !status.ok()) return status;
  uint32_t first = 0;
  for (uint32_t i = 0; i < weight.parts->count; ++i) {
    const QuantizedPart& part = weight.parts->at[i];
    Summed result{nullptr, nullptr, out.stride, bias == nullptr ? nullptr : bias + first, adds};
    if (out.type == DataType::kBf16) {
      result.rounded = static_cast<bf16*>(out.data) + first;
    } else {
      result.sums = static_cast<float*>(out.data) + first;
    }
    absl::Status status =
        StartWith(stream, in, part.format, {{device::ViewOf(part, weight.cols)}}, result);
    if (!status.ok()) return status;
    first += part.rows;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckQuantized(const ConstTensor& weight) {
  uint32_t rows = 0;
  if (weight.parts == nullptr || weight.parts->count > QuantizedParts::kMost) {
    return device::Unserved("a quantised matrix has parts, and at most three");
  }
  for (uint32_t i = 0; i < weight.parts->count; ++i) {
    const QuantizedPart& part = weight.parts->at[i];
    rows += part.rows;
    if (std::ranges::find(kQuantizedFormats, part.format) == std::ranges::end(kQuantizedFormats)) {
      return device::Unserved("no kernel computes with this format of quantised values");
    }
    if (part.rows == 0 || weight.cols == 0 || weight.cols % part.format.super != 0) {
      return device::Unserved("the rows of a quantised matrix are whole blocks");
    }
    if (reinterpret_cast<uintptr_t>(part.data) % 16 != 0) {
      return device::Unserved("parts must begin at multiples of 16 bytes");
    }
  }
  if (rows == weight.rows && weight.type == DataType::kBf16) return absl::OkStatus();
  return device::Unserved("the parts of a quantised matrix are all of its rows");
}

absl::Status QuantizedProduct(Stream stream, const SmallInput& in, const ConstTensor& weight,
                              const float* bias, const Tensor& out) {
  return Sum(stream, in, weight, bias, /*adds=*/false, out);
}

absl::Status AddQuantizedProduct(Stream stream, const SmallInput& in, const ConstTensor& weight,
                                 const Tensor& out) {
  return Sum(stream, in, weight, nullptr, /*adds=*/true, out);
}

absl::Status QuantizedGlu(Stream stream, const SmallInput& in, Activation activation,
                          const ConstTensor& gate_up, const Tensor& out) {
  if (absl::Status status = CheckQuantized(gate_up); !status.ok()) return status;
  const QuantizedPart& gate = gate_up.parts->at[0];
  const QuantizedPart& up = gate_up.parts->at[1];
  if (gate_up.parts->count != 2 || gate.rows != up.rows || gate.format != up.format) {
    return device::Unserved("quantised gates and ups are two parts of one format");
  }
  const Gated result{static_cast<bf16*>(out.data), out.stride, activation == Activation::kGelu};
  return StartWith(stream, in, gate.format,
                   {{device::ViewOf(gate, gate_up.cols), device::ViewOf(up, gate_up.cols)}},
                   result);
}

}  // namespace folio::kernels::cuda
