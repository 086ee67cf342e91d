// QuantizingGemm wraps products for weights in E4M3. It quantises activations to E4M3 before they
// are multiplied, each row with a scale of its own. Products of other weights pass through.
#ifndef FOLIO_SERVICES_MODEL_CUDA_QUANTIZING_GEMM_H_
#define FOLIO_SERVICES_MODEL_CUDA_QUANTIZING_GEMM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/runtime/memory.h"
#include "services/model/family/model_config.h"

namespace folio::model {

// As Gemm, it serves one stream at a time, because all products use the same codes.
class QuantizingGemm final : public kernels::cuda::Gemm {
 public:
  // Room for `max_rows` rows of a layer's activations. `memory` must outlive it.
  // RESOURCE_EXHAUSTED if there is no room.
  static absl::StatusOr<std::unique_ptr<QuantizingGemm>> Make(
      std::unique_ptr<kernels::cuda::Gemm> gemm, kernels::cuda::DeviceMemory& memory,
      const ModelConfig& config, uint32_t max_rows);

  // `in` is bf16 for weights in E4M3.
  absl::Status Multiply(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                        kernels::cuda::ConstTensor weight, kernels::cuda::Tensor out,
                        bool accumulate) override;
  absl::Status MultiplyInParts(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                               kernels::cuda::ConstTensor weight,
                               kernels::cuda::PartialSums parts) override {
    return gemm_->MultiplyInParts(stream, in, weight, parts);
  }
  absl::Status Tune(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                    kernels::cuda::ConstTensor weight, kernels::cuda::Tensor out,
                    bool accumulate) override;

  absl::Status TuneInParts(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                           kernels::cuda::ConstTensor weight,
                           kernels::cuda::PartialSums parts) override {
    return gemm_->TuneInParts(stream, in, weight, parts);
  }

 private:
  QuantizingGemm(std::unique_ptr<kernels::cuda::Gemm> gemm, kernels::cuda::DeviceBuffer codes,
                 kernels::cuda::DeviceBuffer scales)
      : gemm_(std::move(gemm)), codes_(std::move(codes)), scales_(std::move(scales)) {}

  // The place of the codes of `in`.
  kernels::cuda::Tensor Codes(const kernels::cuda::ConstTensor& in) const;
  // Turns `in` into its codes if the weight wants them.
  absl::Status Prepare(kernels::cuda::Stream stream, const kernels::cuda::ConstTensor& weight,
                       kernels::cuda::ConstTensor& in) const;

  const std::unique_ptr<kernels::cuda::Gemm> gemm_;
  const kernels::cuda::DeviceBuffer codes_;   // e4m3 [max_rows, longest row], packed
  const kernels::cuda::DeviceBuffer scales_;  // float [max_rows]
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_QUANTIZING_GEMM_H_
