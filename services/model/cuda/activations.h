// Activations are rows of numbers on a GPU that one step's kernels hand to each other.
#ifndef FOLIO_SERVICES_MODEL_CUDA_ACTIVATIONS_H_
#define FOLIO_SERVICES_MODEL_CUDA_ACTIVATIONS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda/device_weights.h"

namespace folio::model {

class Activations {
 public:
  Activations() = default;

  // Rows begin at multiples of 16 bytes. `what` names the memory in errors, which are
  // DeviceMemory's.
  static absl::StatusOr<Activations> Make(kernels::cuda::DeviceMemory& memory,
                                          kernels::cuda::DataType type, uint32_t rows,
                                          uint32_t cols,
                                          absl::string_view what = "activations of a step") {
    const size_t stride =
        type == kernels::cuda::DataType::kFloat32 ? (cols + 3) / 4 * size_t{4} : DeviceStride(cols);
    auto allocated = memory.Allocate(rows * stride * kernels::cuda::BytesOf(type), what);
    if (!allocated.ok()) return allocated.status();
    return Activations(*std::move(allocated), type, cols, stride);
  }

  kernels::cuda::Tensor Rows(uint32_t count, uint32_t first = 0) const {
    auto* data = memory_.as<>() + first * stride_ * kernels::cuda::BytesOf(type_);
    return {data, type_, count, cols_, stride_};
  }

 private:
  Activations(kernels::cuda::DeviceBuffer memory, kernels::cuda::DataType type, uint32_t cols,
              size_t stride)
      : memory_(std::move(memory)), type_(type), cols_(cols), stride_(stride) {}

  kernels::cuda::DeviceBuffer memory_;
  kernels::cuda::DataType type_ = kernels::cuda::DataType::kFloat32;
  uint32_t cols_ = 0;
  size_t stride_ = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_ACTIVATIONS_H_
