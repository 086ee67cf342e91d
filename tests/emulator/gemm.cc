// Stands for the products of kernels/cuda/ops/gemm.cc: plain loops. As there, the first product of
// a shape is not to be recorded: cuBLASLt's heuristic may fail then.
#include "kernels/cuda/ops/gemm.h"

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "tests/emulator/runtime.h"

namespace folio::kernels::cuda {
namespace {

// Codes of E4M3 are numbers without their row's scale.
float At(const ConstTensor& tensor, uint32_t row, uint32_t col) {
  if (tensor.type == DataType::kE4M3) {
    static const std::array<float, 256> numbers = [] {
      std::array<float, 256> all;
      for (int i = 0; i < 256; ++i) all[i] = e4m3{static_cast<uint8_t>(i)}.ToFloat();
      return all;
    }();
    return numbers[static_cast<const uint8_t*>(tensor.data)[row * tensor.stride + col]];
  }
  const uint16_t bits = static_cast<const uint16_t*>(tensor.data)[row * tensor.stride + col];
  return tensor.type == DataType::kBf16 ? bf16{bits}.ToFloat()
                                        : __half2float(__ushort_as_half(bits));
}

// Numbers of a row, and zeros up to a whole number of lanes.
constexpr uint32_t kLanes = 16;
std::vector<float> Row(const ConstTensor& tensor, uint32_t row) {
  std::vector<float> numbers((tensor.cols + kLanes - 1) / kLanes * kLanes);
  for (uint32_t i = 0; i < tensor.cols; ++i) numbers[i] = At(tensor, row, i);
  return numbers;
}

float Dot(const std::vector<float>& a, const std::vector<float>& b) {
  float sums[kLanes] = {};
  for (size_t i = 0; i < a.size(); i += kLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  return std::accumulate(std::begin(sums), std::end(sums), 0.0f);
}

float ScaleOf(const ConstTensor& tensor, uint32_t row) {
  return tensor.scales == nullptr ? 1.0f : tensor.scales[row];
}

void Put(float x, const Tensor& to, uint32_t row, uint32_t col, bool accumulate) {
  const size_t at = row * to.stride + col;
  if (to.type == DataType::kFloat32) {
    float& out = static_cast<float*>(to.data)[at];
    out = accumulate ? out + x : x;
  } else {
    static_cast<uint16_t*>(to.data)[at] =
        to.type == DataType::kBf16 ? bf16::Round(x).bits : __half_as_ushort(__float2half_rn(x));
  }
}

void MultiplyNow(const ConstTensor& in, const ConstTensor& weight, const Tensor& out,
                 bool accumulate) {
  std::vector<std::vector<float>> rows;
  for (uint32_t row = 0; row < in.rows; ++row) rows.push_back(Row(in, row));
  for (uint32_t col = 0; col < weight.rows; ++col) {
    const std::vector<float> weights = Row(weight, col);
    for (uint32_t row = 0; row < in.rows; ++row) {
      const float scale = ScaleOf(weight, col) * ScaleOf(in, row);
      Put(Dot(rows[row], weights) * scale, out, row, col, accumulate);
    }
  }
}

// The i-th of `parts` equal pieces of the columns of 16-bit numbers.
ConstTensor Piece(const ConstTensor& whole, uint32_t i, uint32_t parts) {
  const uint32_t cols = whole.cols / parts;
  return {static_cast<const uint16_t*>(whole.data) + size_t{i} * cols, whole.type, whole.rows, cols,
          whole.stride};
}

class PlainGemm final : public Gemm {
 public:
  absl::Status Multiply(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                        bool accumulate) override {
    if (absl::Status status = CheckGemm(in, weight, out, accumulate); !status.ok()) return status;
    Meet(in, weight, accumulate, 1);
    emulate::Enqueue(stream, [=] { MultiplyNow(in, weight, out, accumulate); });
    return absl::OkStatus();
  }
  absl::Status MultiplyInParts(Stream stream, ConstTensor in, ConstTensor weight,
                               PartialSums parts) override {
    if (absl::Status status = CheckGemmInParts(in, weight, parts); !status.ok()) return status;
    Meet(in, weight, false, parts.count);
    emulate::Enqueue(stream, [=] {
      Tensor out = FirstPart(parts);
      for (uint32_t i = 0; i < parts.count; ++i) {
        MultiplyNow(Piece(in, i, parts.count), Piece(weight, i, parts.count), out, false);
        out.data = static_cast<float*>(out.data) + out.rows * out.stride;
      }
    });
    return absl::OkStatus();
  }
  absl::Status Tune(Stream stream, ConstTensor in, ConstTensor weight, Tensor out,
                    bool accumulate) override {
    if (absl::Status status = CheckGemm(in, weight, out, accumulate); !status.ok()) return status;
    in.rows = std::min(in.rows, 1u);  // there is nothing to choose from
    absl::Status status = Multiply(stream, in, weight, out, accumulate);
    cudaStreamSynchronize(stream);
    return status;
  }

  absl::Status TuneInParts(Stream stream, ConstTensor in, ConstTensor weight,
                           PartialSums parts) override {
    if (absl::Status status = CheckGemmInParts(in, weight, parts); !status.ok()) return status;
    if (emulate::refuse_parts) return absl::UnimplementedError("refused by the emulator");
    in.rows = parts.rows = std::min(in.rows, 1u);
    absl::Status status = MultiplyInParts(stream, in, weight, parts);
    cudaStreamSynchronize(stream);
    return status;
  }

 private:
  void Meet(const ConstTensor& in, const ConstTensor& weight, bool accumulate, uint32_t parts) {
    if (known_.emplace(in.type, in.rows, weight.rows, in.cols, accumulate, parts).second) {
      emulate::BreakRecording();
    }
  }

  std::set<std::tuple<DataType, uint32_t, uint32_t, uint32_t, bool, uint32_t>> known_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(void*, size_t) {
  return std::make_unique<PlainGemm>();
}

absl::Status Gemm::CheckRowScales() { return absl::OkStatus(); }

}  // namespace folio::kernels::cuda
