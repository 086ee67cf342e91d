#include "services/model/cuda/quantizing_gemm.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/ops/ops.h"
#include "services/base/check.h"

namespace folio::model {

namespace cuda = kernels::cuda;

absl::StatusOr<std::unique_ptr<QuantizingGemm>> QuantizingGemm::Make(
    std::unique_ptr<cuda::Gemm> gemm, cuda::DeviceMemory& memory, const ModelConfig& config,
    uint32_t max_rows) {
  const uint32_t longest = std::max({config.hidden, config.heads * config.head_dim, config.ffn});
  auto codes = memory.Allocate(size_t{max_rows} * longest, "quantised activations of a step");
  if (!codes.ok()) return codes.status();
  auto scales = memory.Allocate(max_rows * sizeof(float), "the scales of quantised activations");
  if (!scales.ok()) return scales.status();
  return std::unique_ptr<QuantizingGemm>(
      new QuantizingGemm(std::move(gemm), *std::move(codes), *std::move(scales)));
}

cuda::Tensor QuantizingGemm::Codes(const cuda::ConstTensor& in) const {
  FOLIO_CHECK(size_t{in.rows} * in.cols <= codes_.bytes());
  return {codes_.as<>(), cuda::DataType::kE4M3, in.rows, in.cols, in.cols, scales_.as<float>()};
}

absl::Status QuantizingGemm::Prepare(cuda::Stream stream, const cuda::ConstTensor& weight,
                                     cuda::ConstTensor& in) const {
  if (weight.type != cuda::DataType::kE4M3) return absl::OkStatus();
  const cuda::Tensor codes = Codes(in);
  absl::Status status = cuda::QuantizeRows(stream, in, codes);
  in = codes;
  return status;
}

absl::Status QuantizingGemm::Multiply(cuda::Stream stream, cuda::ConstTensor in,
                                      cuda::ConstTensor weight, cuda::Tensor out, bool accumulate) {
  if (absl::Status status = Prepare(stream, weight, in); !status.ok()) return status;
  return gemm_->Multiply(stream, in, weight, out, accumulate);
}

absl::Status QuantizingGemm::Tune(cuda::Stream stream, cuda::ConstTensor in,
                                  cuda::ConstTensor weight, cuda::Tensor out, bool accumulate) {
  if (absl::Status status = Prepare(stream, weight, in); !status.ok()) return status;
  return gemm_->Tune(stream, in, weight, out, accumulate);
}

}  // namespace folio::model
