// DequantizingGemm wraps products for weights that are held quantised. It dequantises a matrix to
// bf16 before each product, at a place that all matrices share. Products of other weights pass
// through.
#ifndef FOLIO_SERVICES_MODEL_CUDA_DEQUANTIZING_GEMM_H_
#define FOLIO_SERVICES_MODEL_CUDA_DEQUANTIZING_GEMM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/runtime/memory.h"
#include "services/model/cuda/device_weights.h"

namespace folio::model {

// As Gemm, it serves one stream at a time, because all products use the same place.
class DequantizingGemm final : public kernels::cuda::Gemm {
 public:
  // Room for the largest quantised matrix of `weights`. `memory` must outlive it.
  // RESOURCE_EXHAUSTED if there is no room.
  static absl::StatusOr<std::unique_ptr<DequantizingGemm>> Make(
      std::unique_ptr<kernels::cuda::Gemm> gemm, kernels::cuda::DeviceMemory& memory,
      const DeviceWeights& weights);

  absl::Status Multiply(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                        kernels::cuda::ConstTensor weight, kernels::cuda::Tensor out,
                        bool accumulate) override;
  absl::Status MultiplyInParts(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                               kernels::cuda::ConstTensor weight,
                               kernels::cuda::PartialSums parts) override;
  absl::Status Tune(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                    kernels::cuda::ConstTensor weight, kernels::cuda::Tensor out,
                    bool accumulate) override;
  absl::Status TuneInParts(kernels::cuda::Stream stream, kernels::cuda::ConstTensor in,
                           kernels::cuda::ConstTensor weight,
                           kernels::cuda::PartialSums parts) override;

 private:
  DequantizingGemm(std::unique_ptr<kernels::cuda::Gemm> gemm, kernels::cuda::DeviceBuffer values)
      : gemm_(std::move(gemm)), values_(std::move(values)) {}

  // Dequantises `weight`, which becomes the result, if it is quantised.
  absl::Status Prepare(kernels::cuda::Stream stream, kernels::cuda::ConstTensor& weight) const;

  const std::unique_ptr<kernels::cuda::Gemm> gemm_;
  const kernels::cuda::DeviceBuffer values_;  // bf16, of the largest matrix
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_DEQUANTIZING_GEMM_H_
