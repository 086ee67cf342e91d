// This header has random quantised matrices on the device, and what is multiplied by them.
#ifndef FOLIO_TESTS_GPU_PACKED_MATRIX_H_
#define FOLIO_TESTS_GPU_PACKED_MATRIX_H_

#include <cmath>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/ops/small_products.h"
#include "kernels/cuda/quantized_matrix.h"
#include "tests/gpu/device_data.h"
#include "tests/kernels/quantized_data.h"

namespace folio::kernels::cuda {

inline constexpr float kNormEps = 1e-5f;

// A matrix on the device, of parts of these formats.
class PackedMatrix {
 public:
  struct Part {
    QuantizedFormat format;
    uint32_t rows;
  };
  PackedMatrix(Random& random, const std::vector<Part>& parts, uint32_t cols) : cols_(cols) {
    for (const auto& [format, rows] : parts) {
      const cpu::RandomQuantized matrix(random, format, rows, cols);
      const std::vector<float> values = matrix.Values();
      values_.insert(values_.end(), values.begin(), values.end());
      std::vector<std::byte> packed(QuantizedAreas(format, rows, cols).bytes);
      PackQuantized({&matrix}, absl::MakeSpan(packed));
      held_.push_back(std::make_unique<OnDevice<std::byte>>(packed));
      parts_.at[parts_.count++] = {held_.back()->data(), format, rows};
      rows_ += rows;
    }
  }
  ConstTensor tensor() const {
    ConstTensor tensor(nullptr, DataType::kBf16, rows_, cols_, 0);
    tensor.parts = &parts_;
    return tensor;
  }
  uint32_t rows() const { return rows_; }
  uint32_t cols() const { return cols_; }
  double at(uint32_t row, uint32_t col) const { return values_[size_t{row} * cols_ + col]; }
  const std::vector<float>& values() const { return values_; }
  QuantizedParts& parts() { return parts_; }

 private:
  uint32_t rows_ = 0;
  const uint32_t cols_;
  std::vector<float> values_;
  std::vector<std::unique_ptr<OnDevice<std::byte>>> held_;
  QuantizedParts parts_;
};

// Inputs of some rows, plain and with a norm.
class Inputs {
 public:
  Inputs(Random& random, uint32_t rows, uint32_t cols)
      : rows_(rows),
        cols_(cols),
        plain_(RoundAll(DataType::kBf16, RandomFloats(random, size_t{rows} * cols))),
        hidden_(RandomFloats(random, size_t{rows} * cols, 3.0f)),
        norm_(RandomFloats(random, cols)),
        plain_on_device_(plain_),
        hidden_on_device_(hidden_),
        norm_on_device_(norm_) {}

  SmallInput Plain(uint32_t processors = 132) const {
    return {.rows = Dense(plain_on_device_.data(), DataType::kBf16, rows_, cols_),
            .processors = processors};
  }
  SmallInput Normed() const {
    return {Dense(hidden_on_device_.data(), DataType::kFloat32, rows_, cols_),
            norm_on_device_.data(), kNormEps, false, 3};
  }
  // One row alone.
  SmallInput Row(uint32_t row) const {
    SmallInput one = Plain();
    one.rows.rows = 1;
    one.rows.data = plain_on_device_.data() + size_t{row} * cols_;
    return one;
  }

  // A sum and the size of its terms.
  struct Sum {
    double value = 0, size = 0;
  };
  Sum Product(const PackedMatrix& matrix, bool normed, uint32_t row, uint32_t output) const {
    Sum sum;
    double squares = 0;
    for (uint32_t i = 0; i < cols_; ++i) {
      const double h = hidden_[size_t{row} * cols_ + i];
      squares += h * h;
      const double x =
          normed ? h * norm_[i] : Value(DataType::kBf16, plain_[size_t{row} * cols_ + i]);
      sum.value += x * matrix.at(output, i);
      sum.size += std::fabs(x * matrix.at(output, i));
    }
    const double scale = normed ? 1 / std::sqrt(squares / cols_ + kNormEps) : 1;
    return {sum.value * scale, sum.size * scale};
  }

 private:
  uint32_t rows_, cols_;
  Stored plain_;
  std::vector<float> hidden_, norm_;
  OnDevice<uint16_t> plain_on_device_;
  OnDevice<float> hidden_on_device_, norm_on_device_;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_TESTS_GPU_PACKED_MATRIX_H_
