// SmallProducts makes inputs and weights of products of few rows, on the device and on the host,
// where their products are summed in double precision.
#ifndef FOLIO_TESTS_GPU_SMALL_PRODUCTS_HARNESS_H_
#define FOLIO_TESTS_GPU_SMALL_PRODUCTS_HARNESS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/cuda/ops/small_products.h"
#include "tests/gpu/small_weights.h"

namespace folio::kernels::cuda {

struct SmallSizes {
  uint32_t rows, outputs, cols;
};

class SmallProducts {
 protected:
  using enum DataType;
  static constexpr float kEps = 1e-5f;
  explicit SmallProducts(DataType type) : type_(type) {}

  // For E4M3, columns are a multiple of 16.
  void Make(const SmallSizes& sizes) {
    const uint32_t multiple = type_ == kE4M3 ? kE4M3Multiple : 1;
    sizes_ = sizes;
    sizes_.cols = (sizes.cols + multiple - 1) / multiple * multiple;
    stride_ = PaddedStride(kBf16, sizes_.cols);
    hidden_stride_ = PaddedStride(kFloat32, sizes_.cols);
    weights_.emplace(type_, sizes.outputs, sizes_.cols, random_);
    inputs_ = Rows(sizes.rows, stride_);
    hidden_ = RandomFloats(random_, sizes.rows * hidden_stride_, 3.0f);
    norm_ = RandomFloats(random_, sizes_.cols);
    bias_ = RandomFloats(random_, sizes.outputs);
    device_weights_.emplace(weights_->bytes);
    device_scales_.emplace(weights_->scales);
    device_inputs_.emplace(inputs_);
    device_hidden_.emplace(hidden_);
    device_norm_.emplace(norm_);
    device_bias_.emplace(bias_);
  }

  SmallInput Plain() const {
    return {.rows = ConstTensor(device_inputs_->data(), kBf16, sizes_.rows, sizes_.cols, stride_),
            .processors = processors_};
  }
  SmallInput Normed(bool exact = false) const {
    return {ConstTensor(device_hidden_->data(), kFloat32, sizes_.rows, sizes_.cols, hidden_stride_),
            device_norm_->data(), kEps, exact, processors_};
  }
  ConstTensor weight() const {
    const float* const scales = type_ == kE4M3 ? device_scales_->data() : nullptr;
    return {device_weights_->data(), type_, sizes_.outputs, sizes_.cols, weights_->stride, scales};
  }

  // A sum and the size of its terms.
  struct Sum {
    double value = 0, size = 0;
  };
  Sum Product(bool normed, uint32_t row, uint32_t output) const {
    Sum sum;
    double squares = 0;
    for (uint32_t i = 0; i < sizes_.cols; ++i) {
      const double h = hidden_[row * hidden_stride_ + i];
      squares += h * h;
      const double x = normed ? h * norm_[i] : double{Value(kBf16, inputs_[row * stride_ + i])};
      const double term = x * weights_->At(output, i);
      sum.value += term;
      sum.size += std::fabs(term);
    }
    const double scale = normed ? 1 / std::sqrt(squares / sizes_.cols + kEps) : 1;
    return {sum.value * scale, sum.size * scale};
  }

  // `want` gives the result for a row and column, and how far the device's may be from it.
  static void ExpectNear(const std::vector<double>& got, size_t stride, uint32_t rows,
                         uint32_t cols, const std::function<Sum(uint32_t, uint32_t)>& want,
                         const std::vector<double>& before) {
    for (size_t i = 0; i < got.size(); ++i) {
      const auto row = static_cast<uint32_t>(i / stride);
      const auto col = static_cast<uint32_t>(i % stride);
      if (row >= rows || col >= cols) {
        ASSERT_EQ(got[i], before[i]) << "outside of the result";
        continue;
      }
      const Sum wanted = want(row, col);
      ASSERT_NEAR(got[i], wanted.value, wanted.size) << "row " << row << ", column " << col;
    }
  }

  // Rows of numbers between which there is NaN, which must not be read.
  Stored Rows(uint32_t rows, size_t stride) {
    Stored numbers(rows * stride, 0x7fff);
    for (uint32_t row = 0; row < rows; ++row) {
      const Stored some = RoundAll(kBf16, RandomFloats(random_, sizes_.cols));
      std::copy(some.begin(), some.end(), numbers.begin() + static_cast<ptrdiff_t>(row * stride));
    }
    return numbers;
  }

  static std::vector<double> Doubles(const std::vector<float>& from) {
    return {from.begin(), from.end()};
  }
  static std::vector<double> Doubles(const Stored& from) {
    std::vector<double> to;
    for (const uint16_t bits : from) to.push_back(Value(kBf16, bits));
    return to;
  }

  // Float32 results of a product, with or without a norm.
  void ExpectFloats(const SmallInput& in, double precision, bool add) {
    SCOPED_TRACE(testing::Message()
                 << sizes_.rows << " x " << sizes_.outputs << " x " << sizes_.cols);
    const size_t stride = PaddedStride(kFloat32, sizes_.outputs);
    const std::vector<float> before = RandomFloats(random_, (sizes_.rows + 1) * stride);
    const OnDevice<float> out(before);
    const Tensor result{out.data(), kFloat32, sizes_.rows, sizes_.outputs, stride};
    const absl::Status status =
        add ? AddSmallProduct(nullptr, in, weight(), result)
            : SmallProduct(nullptr, in, weight(), device_bias_->data(), result);
    ASSERT_TRUE(status.ok()) << status;
    const auto want = [&](uint32_t row, uint32_t col) {
      const Sum sum = Product(in.norm != nullptr, row, col);
      const double more = add ? before[row * stride + col] : bias_[col];
      return Sum{sum.value + more, sum.size * precision + std::fabs(more) * 1e-6 + 1e-6};
    };
    ExpectNear(Doubles(out.Read()), stride, sizes_.rows, sizes_.outputs, want, Doubles(before));
  }

  const DataType type_;
  Random random_{83};
  SmallSizes sizes_{};
  uint32_t processors_ = 1;
  size_t stride_ = 0, hidden_stride_ = 0;
  Stored inputs_;
  std::optional<SmallWeights> weights_;
  std::vector<float> hidden_, norm_, bias_;
  std::optional<OnDevice<uint8_t>> device_weights_;
  std::optional<OnDevice<uint16_t>> device_inputs_;
  std::optional<OnDevice<float>> device_hidden_, device_norm_, device_bias_, device_scales_;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_TESTS_GPU_SMALL_PRODUCTS_HARNESS_H_
