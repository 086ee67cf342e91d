#include "services/model/cuda/dequantizing_gemm.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/ops/quantized_products.h"
#include "services/base/check.h"

namespace folio::model {

namespace cuda = kernels::cuda;

namespace {

size_t BytesOf(const cuda::ConstTensor& weight) {
  return weight.rows * DeviceStride(weight.cols) * cuda::BytesOf(weight.type);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DequantizingGemm>> DequantizingGemm::Make(
    std::unique_ptr<cuda::Gemm> gemm, cuda::DeviceMemory& memory, const DeviceWeights& weights) {
  size_t most = 0;
  for (const DeviceLayerWeights& layer : weights.layers) {
    for (const cuda::ConstTensor* matrix : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) {
      if (matrix->parts != nullptr) most = std::max(most, BytesOf(*matrix));
    }
  }
  auto values = memory.Allocate(most, "a dequantised matrix");
  if (!values.ok()) return values.status();
  return std::unique_ptr<DequantizingGemm>(
      new DequantizingGemm(std::move(gemm), *std::move(values)));
}

absl::Status DequantizingGemm::Prepare(cuda::Stream stream, cuda::ConstTensor& weight) const {
  if (weight.parts == nullptr) return absl::OkStatus();
  FOLIO_CHECK(BytesOf(weight) <= values_.bytes());
  const cuda::Tensor values = {values_.as<>(), weight.type, weight.rows, weight.cols,
                               DeviceStride(weight.cols)};
  absl::Status status = cuda::Dequantize(stream, weight, values);
  weight = values;
  return status;
}

absl::Status DequantizingGemm::Multiply(cuda::Stream stream, cuda::ConstTensor in,
                                        cuda::ConstTensor weight, cuda::Tensor out,
                                        bool accumulate) {
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->Multiply(stream, in, weight, out, accumulate);
}

absl::Status DequantizingGemm::MultiplyInParts(cuda::Stream stream, cuda::ConstTensor in,
                                               cuda::ConstTensor weight, cuda::PartialSums parts) {
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->MultiplyInParts(stream, in, weight, parts);
}

absl::Status DequantizingGemm::Tune(cuda::Stream stream, cuda::ConstTensor in,
                                    cuda::ConstTensor weight, cuda::Tensor out, bool accumulate) {
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->Tune(stream, in, weight, out, accumulate);
}

absl::Status DequantizingGemm::TuneInParts(cuda::Stream stream, cuda::ConstTensor in,
                                           cuda::ConstTensor weight, cuda::PartialSums parts) {
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->TuneInParts(stream, in, weight, parts);
}

}  // namespace folio::model
