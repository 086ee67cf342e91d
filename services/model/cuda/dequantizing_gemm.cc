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

uint8_t* At(void* data, size_t offset) { return static_cast<uint8_t*>(data) + offset; }
const uint8_t* At(const void* data, size_t offset) {
  return static_cast<const uint8_t*>(data) + offset;
}

// Some rows of a tensor.
template <typename AnyTensor>
AnyTensor RowsOf(AnyTensor tensor, uint32_t first, uint32_t rows) {
  tensor.data = At(tensor.data, first * tensor.stride * cuda::BytesOf(tensor.type));
  tensor.rows = rows;
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DequantizingGemm>> DequantizingGemm::Make(
    std::unique_ptr<cuda::Gemm> gemm, cuda::DeviceMemory& memory, const DeviceWeights& weights,
    uint32_t processors) {
  size_t most = 0;
  for (const DeviceLayerWeights& layer : weights.layers) {
    for (const cuda::ConstTensor* matrix : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down}) {
      if (matrix->parts != nullptr) most = std::max(most, BytesOf(*matrix));
    }
  }
  auto values = memory.Allocate(most, "a dequantised matrix");
  if (!values.ok()) return values.status();
  return std::unique_ptr<DequantizingGemm>(
      new DequantizingGemm(std::move(gemm), *std::move(values), processors));
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
  if (MultipliesInPasses(weight, in.rows)) {
    return MultiplyInPasses(stream, in, weight, out, accumulate);
  }
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->Multiply(stream, in, weight, out, accumulate);
}

absl::Status DequantizingGemm::MultiplyInPasses(cuda::Stream stream, const cuda::ConstTensor& in,
                                                const cuda::ConstTensor& weight,
                                                const cuda::Tensor& out, bool accumulate) const {
  for (uint32_t first = 0; first < in.rows; first += cuda::kMaxSmallRows) {
    const uint32_t rows = std::min(cuda::kMaxSmallRows, in.rows - first);
    const cuda::SmallInput some = {.rows = RowsOf(in, first, rows), .processors = processors_};
    const cuda::Tensor to = RowsOf(out, first, rows);
    absl::Status status = accumulate ? cuda::AddSmallProduct(stream, some, weight, to)
                                     : cuda::SmallProduct(stream, some, weight, nullptr, to);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DequantizingGemm::MultiplyInParts(cuda::Stream stream, cuda::ConstTensor in,
                                               cuda::ConstTensor weight, cuda::PartialSums parts) {
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->MultiplyInParts(stream, in, weight, parts);
}

absl::Status DequantizingGemm::Tune(cuda::Stream stream, cuda::ConstTensor in,
                                    cuda::ConstTensor weight, cuda::Tensor out, bool accumulate) {
  if (MultipliesInPasses(weight, in.rows)) return absl::OkStatus();  // no choice to make
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->Tune(stream, in, weight, out, accumulate);
}

absl::Status DequantizingGemm::TuneInParts(cuda::Stream stream, cuda::ConstTensor in,
                                           cuda::ConstTensor weight, cuda::PartialSums parts) {
  if (absl::Status status = Prepare(stream, weight); !status.ok()) return status;
  return gemm_->TuneInParts(stream, in, weight, parts);
}

}  // namespace folio::model
