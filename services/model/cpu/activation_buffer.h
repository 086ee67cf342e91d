// ActivationBuffer is the memory of one set of activations, aligned for vector instructions.
#ifndef FOLIO_SERVICES_MODEL_CPU_ACTIVATION_BUFFER_H_
#define FOLIO_SERVICES_MODEL_CPU_ACTIVATION_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/views.h"

namespace folio::model {

// A dense [rows, cols] array. A view shows its first rows.
class ActivationBuffer {
 public:
  ActivationBuffer() = default;
  ActivationBuffer(size_t element_bytes, uint32_t rows, uint32_t cols)
      : memory_(element_bytes * rows * cols + kAlignment), cols_(cols) {}

  kernels::cpu::Activations View(uint32_t rows) const { return {data(), rows, cols_}; }
  kernels::Matrix<float> Floats(uint32_t rows) const {
    return {reinterpret_cast<float*>(data()), rows, cols_, cols_};
  }
  std::byte* data() const {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return const_cast<std::byte*>(memory_.data()) +
           (kAlignment - address % kAlignment) % kAlignment;
  }

 private:
  static constexpr size_t kAlignment = 64;
  std::vector<std::byte> memory_;
  uint32_t cols_ = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CPU_ACTIVATION_BUFFER_H_
