// DequantizingGemm wraps products for weights that are held quantised. Up to 16 rows are multiplied
// by the codes, in two passes over them, which read less than half of what a copy in bf16 costs.
// For more rows it dequantises a matrix to bf16 before each product, at a place that all matrices
// share. Products of other weights pass through.
#ifndef FOLIO_SERVICES_MODEL_CUDA_DEQUANTIZING_GEMM_H_
#define FOLIO_SERVICES_MODEL_CUDA_DEQUANTIZING_GEMM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/ops/small_products.h"
#include "kernels/cuda/runtime/memory.h"
#include "services/model/cuda/device_weights.h"

namespace folio::model {

// As Gemm, it serves one stream at a time, because all products use the same place.
class DequantizingGemm final : public kernels::cuda::Gemm {
 public:
  // Room for the largest quantised matrix of `weights`. `memory` must outlive it. `processors` is
  // the number of the GPU's multiprocessors, or 0 to dequantise for few rows too.
  // RESOURCE_EXHAUSTED if there is no room.
  static absl::StatusOr<std::unique_ptr<DequantizingGemm>> Make(
      std::unique_ptr<kernels::cuda::Gemm> gemm, kernels::cuda::DeviceMemory& memory,
      const DeviceWeights& weights, uint32_t processors);

  static constexpr uint32_t kMaxRowsInPasses = 2 * kernels::cuda::kMaxSmallRows;

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
  DequantizingGemm(std::unique_ptr<kernels::cuda::Gemm> gemm, kernels::cuda::DeviceBuffer values,
                   uint32_t processors)
      : gemm_(std::move(gemm)), values_(std::move(values)), processors_(processors) {}

  bool MultipliesInPasses(const kernels::cuda::ConstTensor& weight, uint32_t rows) const {
    return weight.parts != nullptr && processors_ > 0 && rows <= kMaxRowsInPasses;
  }
  absl::Status MultiplyInPasses(kernels::cuda::Stream stream, const kernels::cuda::ConstTensor& in,
                                const kernels::cuda::ConstTensor& weight,
                                const kernels::cuda::Tensor& out, bool accumulate) const;

  // Dequantises `weight`, which becomes the result, if it is quantised.
  absl::Status Prepare(kernels::cuda::Stream stream, kernels::cuda::ConstTensor& weight) const;

  const std::unique_ptr<kernels::cuda::Gemm> gemm_;
  const kernels::cuda::DeviceBuffer values_;  // bf16, of the largest matrix
  const uint32_t processors_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_DEQUANTIZING_GEMM_H_
