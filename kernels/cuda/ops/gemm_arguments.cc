#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/ops/gemm.h"

namespace folio::kernels::cuda {
namespace {

absl::Status Unserved(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("CUDA products: ", what));
}

}  // namespace

absl::Status CheckGemm(ConstTensor in, ConstTensor weight, const Tensor& out, bool accumulate) {
  if (weight.parts != nullptr) return Unserved("quantised weights must be dequantised before");
  const bool codes = in.type == DataType::kE4M3;
  if (in.type == DataType::kFloat32 || weight.type != in.type) {
    return Unserved("activations and weights must have one type, bf16, fp16 or E4M3");
  }
  const DataType rounded = codes ? DataType::kBf16 : in.type;
  if (out.type != DataType::kFloat32 && (out.type != rounded || accumulate)) {
    return Unserved(
        "results must be float32, or without accumulation of the activations' type, bf16 for E4M3");
  }
  if (in.cols != weight.cols || out.cols != weight.rows || out.rows < in.rows) {
    return Unserved(absl::StrCat("[", in.rows, ", ", in.cols, "] times [", weight.rows, ", ",
                                 weight.cols, "] transposed is not [", out.rows, ", ", out.cols,
                                 "]"));
  }
  if (weight.rows == 0 || weight.cols == 0) return Unserved("the weight matrix is empty");
  if (codes && (in.scales == nullptr || weight.scales == nullptr)) {
    return Unserved("rows of E4M3 need scales");
  }
  if (codes && (weight.rows % kE4M3Multiple != 0 || weight.cols % kE4M3Multiple != 0)) {
    return Unserved(absl::StrCat("a weight matrix [", weight.rows, ", ", weight.cols,
                                 "] of E4M3 must have multiples of ", kE4M3Multiple,
                                 " rows and columns"));
  }
  if (!RowsAreAligned(in) || !RowsAreAligned(weight) || !RowsAreAligned(out)) {
    return Unserved("rows must begin at multiples of 16 bytes");
  }
  return absl::OkStatus();
}

absl::Status CheckGemmInParts(ConstTensor in, ConstTensor weight, const PartialSums& parts) {
  // Pieces of a row begin at multiples of 16 bytes, as rows do.
  constexpr uint32_t kPieceMultiple = 8;
  if (in.type == DataType::kE4M3) return Unserved("products of E4M3 are not computed in parts");
  if (parts.count == 0 || in.cols % (parts.count * kPieceMultiple) != 0) {
    return Unserved(absl::StrCat(in.cols, " columns have no ", parts.count,
                                 " equal pieces of a multiple of ", kPieceMultiple));
  }
  if (parts.rows != in.rows) {
    return Unserved(absl::StrCat(in.rows, " rows have no parts of ", parts.rows, " rows"));
  }
  return CheckGemm(in, weight, FirstPart(parts), /*accumulate=*/false);
}

absl::Status CheckE4M3(const DeviceInfo& device, const absl::Status& row_scales) {
  const std::string gpu = absl::StrCat("FP8: ", device.ToString(), " (compute capability ",
                                       device.major, ".", device.minor, ")");
  if (device.major * 10 + device.minor < 89) {
    return absl::UnimplementedError(
        absl::StrCat(gpu, " has no FP8 tensor cores, which begin with 8.9; use bfloat16"));
  }
  if (row_scales.ok()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(gpu, ": no product with a scale for each row (", row_scales.message(),
                   "), which GPUs of 9.0 have with cuBLAS 12.9 or later; use bfloat16"));
}

}  // namespace folio::kernels::cuda
