// Products of few rows against sums in double precision, what they do beside the product, and what
// is refused.
#include "kernels/cuda/ops/small_products.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

constexpr DataType kBf16 = DataType::kBf16;
constexpr DataType kFloat32 = DataType::kFloat32;
constexpr float kEps = 1e-5f;

struct SmallSizes {
  uint32_t rows, outputs, cols;
};
// One output, parts of tiles and chunks, whole ones, and more than one turn of all warps.
constexpr SmallSizes kSizes[] = {{1, 1, 8},    {1, 17, 16},   {3, 16, 64},   {7, 40, 104},
                                 {8, 33, 576}, {2, 24, 2064}, {5, 18, 4104}, {8, 100, 200}};
// Each multiprocessor has two blocks, so that a block computes one tile or several.
constexpr uint32_t kProcessors[] = {1, 132};

double Gate(Activation activation, double gate, double up) {
  if (activation == Activation::kSilu) return gate / (1 + std::exp(-gate)) * up;
  const double u = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
  return gate * (1 + std::tanh(u)) / 2 * up;
}

// Inputs and weights on the device, and their products in double precision.
class SmallProductsTest : public ::testing::Test {
 protected:
  void Make(const SmallSizes& sizes) {
    sizes_ = sizes;
    stride_ = PaddedStride(kBf16, sizes.cols);
    hidden_stride_ = PaddedStride(kFloat32, sizes.cols);
    weights_ = Rows(sizes.outputs, stride_);
    inputs_ = Rows(sizes.rows, stride_);
    hidden_ = RandomFloats(random_, sizes.rows * hidden_stride_, 3.0f);
    norm_ = RandomFloats(random_, sizes.cols);
    bias_ = RandomFloats(random_, sizes.outputs);
    device_weights_.emplace(weights_);
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
    return {device_weights_->data(), kBf16, sizes_.outputs, sizes_.cols, stride_};
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
      const double term = x * Value(kBf16, weights_[output * stride_ + i]);
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

  Random random_{83};
  SmallSizes sizes_{};
  uint32_t processors_ = 1;
  size_t stride_ = 0, hidden_stride_ = 0;
  Stored weights_, inputs_;
  std::vector<float> hidden_, norm_, bias_;
  std::optional<OnDevice<uint16_t>> device_weights_, device_inputs_;
  std::optional<OnDevice<float>> device_hidden_, device_norm_, device_bias_;
};

TEST_F(SmallProductsTest, SumsInFloat32) {
  for (const SmallSizes& sizes : kSizes) {
    Make(sizes);
    for (const uint32_t processors : kProcessors) {
      processors_ = processors;
      for (const bool add : {false, true}) ExpectFloats(Plain(), 1e-6, add);
    }
  }
}

// Rounding to bf16 loses 1 / 256 of each term, and exact input 1 / 65,536.
TEST_F(SmallProductsTest, NormalisesOnTheWayIn) {
  for (const SmallSizes& sizes : kSizes) {
    Make(sizes);
    for (const uint32_t processors : kProcessors) {
      processors_ = processors;
      ExpectFloats(Normed(), 1 / 256.0, false);
      ExpectFloats(Normed(/*exact=*/true), 2e-5, false);
    }
  }
}

TEST_F(SmallProductsTest, RoundsToBf16) {
  for (const SmallSizes& sizes : {SmallSizes{3, 33, 72}, {7, 16, 200}}) {
    Make(sizes);
    const size_t stride = PaddedStride(kBf16, sizes.outputs);
    const OnDevice<uint16_t> out(Stored(sizes.rows * stride));
    ASSERT_TRUE(SmallProduct(nullptr, Plain(), weight(), nullptr,
                             {out.data(), kBf16, sizes.rows, sizes.outputs, stride})
                    .ok());
    const auto want = [&](uint32_t row, uint32_t col) {
      const Sum sum = Product(false, row, col);
      return Sum{sum.value, std::fabs(sum.value) / 256 + sum.size * 1e-6};
    };
    ExpectNear(Doubles(out.Read()), stride, sizes.rows, sizes.outputs, want,
               std::vector<double>(sizes.rows * stride));
  }
}

TEST_F(SmallProductsTest, GatesOnTheWayOut) {
  for (const SmallSizes& sizes : {SmallSizes{1, 2, 8}, {3, 48, 104}, {8, 66, 576}, {5, 90, 2064}}) {
    for (const auto& [normed, activation] : {std::pair(false, Activation::kSilu),
                                             {true, Activation::kSilu},
                                             {false, Activation::kGelu},
                                             {true, Activation::kGelu}}) {
      Make(sizes);
      const uint32_t outputs = sizes.outputs / 2;
      const size_t stride = PaddedStride(kBf16, outputs);
      const OnDevice<uint16_t> out(Stored(sizes.rows * stride));
      const absl::Status status =
          SmallGlu(nullptr, normed ? Normed() : Plain(), activation, weight(),
                   {out.data(), kBf16, sizes.rows, outputs, stride});
      ASSERT_TRUE(status.ok()) << status;
      const auto want = [&](uint32_t row, uint32_t col) {
        const Sum gate = Product(normed, row, col);
        const Sum up = Product(normed, row, outputs + col);
        const double precision = normed ? 1 / 256.0 : 1e-6;
        const double value = Gate(activation, gate.value, up.value);
        // The slopes of both are at most 1.13.
        return Sum{value, std::fabs(value) / 256 + 1e-6 +
                              1.13 * gate.size * precision * (std::fabs(up.value) + 1) +
                              up.size * precision * (std::fabs(gate.value) + 1)};
      };
      ExpectNear(Doubles(out.Read()), stride, sizes.rows, outputs, want,
                 std::vector<double>(sizes.rows * stride));
    }
  }
}

TEST_F(SmallProductsTest, ARowIsMultipliedAlikeInAnyBatch) {
  Make({8, 100, 704});
  const OnDevice<float> together(std::vector<float>(size_t{8} * 100));
  ASSERT_TRUE(
      SmallProduct(nullptr, Plain(), weight(), nullptr, Dense(together.data(), kFloat32, 8, 100))
          .ok());
  const std::vector<float> want = together.Read();
  for (uint32_t row = 0; row < 8; ++row) {
    SmallInput one = Plain();
    one.rows.rows = 1;
    one.rows.data = device_inputs_->data() + row * stride_;
    const OnDevice<float> alone(std::vector<float>(100));
    ASSERT_TRUE(
        SmallProduct(nullptr, one, weight(), nullptr, Dense(alone.data(), kFloat32, 1, 100)).ok());
    ASSERT_EQ(alone.Read(),
              std::vector<float>(want.begin() + row * 100, want.begin() + row * 100 + 100));
  }
}

TEST_F(SmallProductsTest, NoRowsAreNoWork) {
  Make({1, 8, 8});
  SmallInput none = Plain();
  none.rows.rows = 0;
  const OnDevice<float> out(std::vector<float>(8, 7.0f));
  EXPECT_TRUE(AddSmallProduct(nullptr, none, weight(), Dense(out.data(), kFloat32, 0, 8)).ok());
  EXPECT_EQ(out.Read(), std::vector<float>(8, 7.0f));
}

TEST_F(SmallProductsTest, WhatIsNotServedIsSaid) {
  Make({8, 16, 16});
  const auto said = [](const absl::Status& status, const char* what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(what), std::string::npos) << status;
  };
  const Tensor out = Dense(nullptr, kFloat32, 17, 16);
  const Tensor half = Dense(nullptr, kBf16, 17, 16);
  const auto product = [&](const SmallInput& in, const Tensor& to) {
    return SmallProduct(nullptr, in, weight(), nullptr, to);
  };
  SmallInput in = Plain();
  in.rows.rows = 9;
  said(product(in, out), "serve 8 rows, not 9");
  in = Plain();
  in.processors = 0;
  said(product(in, out), "need the number of the GPU's multiprocessors");
  said(product(Normed(), half), "bf16 without a norm");
  said(AddSmallProduct(nullptr, Normed(), weight(), out), "without a norm");
  said(AddSmallProduct(nullptr, Plain(), weight(), half), "added to float32");
  in = Plain();
  in.exact = true;
  said(product(in, out), "only rows with a norm");
  in = Normed();
  in.rows.type = kBf16;
  said(product(in, out), "float32 rows with a norm");
  in = Plain();
  in.rows.cols = 8;
  said(product(in, out), "[8, 8] times [16, 16] transposed is not [17, 16]");
  said(product(Plain(), Dense(nullptr, kFloat32, 7, 16)), "is not [7, 16]");
  in = Plain();
  in.rows.stride = 17;
  said(product(in, out), "multiples of 16 bytes");
  in = Plain();
  in.rows.cols = 12;
  ConstTensor odd = weight();
  odd.cols = 12;
  said(SmallProduct(nullptr, in, odd, nullptr, out), "a multiple of 8 columns, not 12");
  odd = weight();
  odd.rows = 15;
  said(SmallGlu(nullptr, Plain(), Activation::kSilu, odd, Dense(nullptr, kBf16, 8, 7)),
       "as many gates as ups");
  said(SmallGlu(nullptr, Plain(), Activation::kSilu, weight(), Dense(nullptr, kFloat32, 8, 8)),
       "result is bf16");
}

}  // namespace
}  // namespace folio::kernels::cuda
