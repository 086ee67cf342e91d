#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/ops/gemm.h"

namespace folio::kernels::cuda {
namespace {

absl::Status Unserved(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("CUDA products: ", what));
}

// Rows begin at multiples of 16 bytes and do not overlap.
bool RowsAreAligned(const ConstTensor& tensor) {
  constexpr size_t kAlignment = 16;
  return reinterpret_cast<uintptr_t>(tensor.data) % kAlignment == 0 &&
         tensor.stride * BytesOf(tensor.type) % kAlignment == 0 && tensor.stride >= tensor.cols;
}

}  // namespace

absl::Status CheckGemm(ConstTensor in, ConstTensor weight, const Tensor& out, bool accumulate) {
  if (in.type == DataType::kFloat32 || weight.type != in.type) {
    return Unserved("activations and weights must have one type, bf16 or fp16");
  }
  if (out.type != DataType::kFloat32 && (out.type != in.type || accumulate)) {
    return Unserved("results must be float32, or of the activations' type without accumulation");
  }
  if (in.cols != weight.cols || out.cols != weight.rows || out.rows < in.rows) {
    return Unserved(absl::StrCat("[", in.rows, ", ", in.cols, "] times [", weight.rows, ", ",
                                 weight.cols, "] transposed is not [", out.rows, ", ", out.cols,
                                 "]"));
  }
  if (weight.rows == 0 || weight.cols == 0) return Unserved("the weight matrix is empty");
  if (!RowsAreAligned(in) || !RowsAreAligned(weight) || !RowsAreAligned(out)) {
    return Unserved("rows must begin at multiples of 16 bytes");
  }
  return absl::OkStatus();
}

}  // namespace folio::kernels::cuda
