// A warp dequantises a cell at a time.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/quantized_cells.cuh"
#include "kernels/cuda/device/quantized_views.cuh"
#include "kernels/cuda/ops/quantized_products.h"

namespace folio::kernels::cuda {
namespace {

using device::QuantizedCell;
using device::QuantizedView;

constexpr uint32_t kWarps = 8;
constexpr uint32_t kThreads = kWarps * 32;

// Each operation rounds, as kernels::Dequantize has it.
__device__ __forceinline__ float ValueOf(uint32_t code, float step, float offset, bool offsets) {
  const float value = __fmul_rn(step, device::ToFloat(bf16{static_cast<uint16_t>(code)}));
  return offsets ? __fsub_rn(value, offset) : value;
}

template <typename Codes>
__global__ void __launch_bounds__(kThreads)
    DequantizeKernel(QuantizedView of, bf16* out, size_t stride, uint32_t cols) {
  const uint32_t tile = blockIdx.y;
  const uint32_t cell = blockIdx.x * kWarps + threadIdx.x / 32;
  const uint32_t lane = threadIdx.x % 32;
  if (cell >= of.cells) return;
  QuantizedCell<Codes> held = {};
  held.Load(of, tile, cell);
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    uint32_t codes[4];
    held.Tile(of, s, codes);
    const int group = s / Codes::kSixteens;
    const uint32_t col = cell * kQuantizedCell + 16 * s + lane % 4 * 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t row = tile * kQuantizedTile + lane / 4 + 8 * half;
      if (row >= of.outputs || col >= cols) continue;
      const float step = held.Step(of, group, half);
      const float offset = of.offsets ? held.Offset(of, group, half) : 0;
      const float values[4] = {ValueOf(codes[half], step, offset, of.offsets),
                               ValueOf(codes[half] >> 16, step, offset, of.offsets),
                               ValueOf(codes[half + 2], step, offset, of.offsets),
                               ValueOf(codes[half + 2] >> 16, step, offset, of.offsets)};
      device::StoreAll(values, out + row * stride + col);
    }
  }
}

}  // namespace

absl::Status Dequantize(Stream stream, const ConstTensor& weight, const Tensor& out) {
  if (absl::Status status = CheckQuantized(weight); !status.ok()) return status;
  if (out.type != DataType::kBf16 || out.rows != weight.rows || out.cols != weight.cols ||
      out.stride % 4 != 0 || !RowsAreAligned(out)) {
    return device::Unserved("a matrix is dequantised to bf16 in its shape");
  }
  // More rows of blocks than a grid has would be 2^20 rows of a matrix.
  constexpr uint32_t kMostTiles = 65535;
  uint32_t row = 0;
  for (uint32_t i = 0; i < weight.parts->count; ++i) {
    const QuantizedPart& part = weight.parts->at[i];
    const QuantizedView view = device::ViewOf(part, weight.cols);
    const uint32_t tiles = device::Blocks(part.rows, kQuantizedTile);
    if (tiles > kMostTiles) return device::Unserved("a quantised matrix has too many rows");
    bf16* const to = static_cast<bf16*>(out.data) + row * out.stride;
    absl::Status status = device::WithCodes(part.format, [&](auto codes) {
      return device::Launch("Dequantize", stream, dim3(device::Blocks(view.cells, kWarps), tiles),
                            kThreads, DequantizeKernel<decltype(codes)>, view, to, out.stride,
                            weight.cols);
    });
    if (!status.ok()) return status;
    row += part.rows;
  }
  return absl::OkStatus();
}

}  // namespace folio::kernels::cuda
