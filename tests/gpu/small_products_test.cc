// Products of few rows against sums in double precision, what they do beside the product, and what
// is refused.
#include "kernels/cuda/ops/small_products.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "tests/gpu/small_products_harness.h"

namespace folio::kernels::cuda {
namespace {

constexpr DataType kBf16 = DataType::kBf16;
constexpr DataType kE4M3 = DataType::kE4M3;

// One output, parts of tiles and lines, whole ones, and more than one turn of all warps, with one
// tile of rows and with two.
constexpr SmallSizes kSizes[] = {{1, 1, 8},     {1, 17, 16},   {3, 16, 64},   {7, 40, 104},
                                 {8, 33, 576},  {2, 24, 2064}, {5, 18, 4104}, {8, 100, 200},
                                 {9, 17, 2064}, {16, 40, 576}, {13, 18, 104}};
// Each multiprocessor has two blocks, so that a block computes one tile or several.
constexpr uint32_t kProcessors[] = {1, 132};

double Gate(Activation activation, double gate, double up) {
  if (activation == Activation::kSilu) return gate / (1 + std::exp(-gate)) * up;
  const double u = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
  return gate * (1 + std::tanh(u)) / 2 * up;
}

class SmallProductsTest : public SmallProducts, public testing::TestWithParam<DataType> {
 protected:
  SmallProductsTest() : SmallProducts(GetParam()) {}
};
class SmallProductsRefusalTest : public SmallProducts, public testing::Test {
 protected:
  SmallProductsRefusalTest() : SmallProducts(kBf16) {}
};

INSTANTIATE_TEST_SUITE_P(Weights, SmallProductsTest, testing::Values(kBf16, kE4M3),
                         [](const auto& info) { return info.param == kBf16 ? "bf16" : "e4m3"; });

TEST_P(SmallProductsTest, SumsInFloat32) {
  for (const SmallSizes& sizes : kSizes) {
    Make(sizes);
    for (const uint32_t processors : kProcessors) {
      processors_ = processors;
      for (const bool add : {false, true}) ExpectFloats(Plain(), 1e-6, add);
    }
  }
}

// Rounding to bf16 loses 1 / 256 of each term, and exact input 1 / 65,536.
TEST_P(SmallProductsTest, NormalisesOnTheWayIn) {
  for (const SmallSizes& sizes : kSizes) {
    Make(sizes);
    for (const uint32_t processors : kProcessors) {
      processors_ = processors;
      ExpectFloats(Normed(), 1 / 256.0, false);
      if (type_ == kBf16) ExpectFloats(Normed(/*exact=*/true), 2e-5, false);
    }
  }
}

TEST_P(SmallProductsTest, RoundsToBf16) {
  for (const SmallSizes& sizes : {SmallSizes{3, 33, 72}, {7, 16, 200}, {12, 20, 208}}) {
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

TEST_P(SmallProductsTest, GatesOnTheWayOut) {
  for (const SmallSizes& sizes :
       {SmallSizes{1, 2, 8}, {3, 48, 104}, {8, 66, 576}, {5, 90, 2064}, {16, 34, 576}}) {
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

TEST_P(SmallProductsTest, ARowIsMultipliedAlikeInAnyBatch) {
  constexpr uint32_t kRows = 16;
  Make({kRows, 100, 704});
  const OnDevice<float> together(std::vector<float>(size_t{kRows} * 100));
  ASSERT_TRUE(SmallProduct(nullptr, Plain(), weight(), nullptr,
                           Dense(together.data(), kFloat32, kRows, 100))
                  .ok());
  const std::vector<float> want = together.Read();
  for (uint32_t row = 0; row < kRows; ++row) {
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

TEST_P(SmallProductsTest, NoRowsAreNoWork) {
  Make({1, 8, 8});
  SmallInput none = Plain();
  none.rows.rows = 0;
  const OnDevice<float> out(std::vector<float>(8, 7.0f));
  EXPECT_TRUE(AddSmallProduct(nullptr, none, weight(), Dense(out.data(), kFloat32, 0, 8)).ok());
  EXPECT_EQ(out.Read(), std::vector<float>(8, 7.0f));
}

TEST_F(SmallProductsRefusalTest, WhatIsNotServedIsSaid) {
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
  in.rows.rows = 17;
  said(product(in, out), "serve 16 rows, not 17");
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
  ConstTensor codes = weight();
  codes.type = kE4M3;
  codes.scales = device_bias_->data();
  said(SmallProduct(nullptr, Normed(/*exact=*/true), codes, nullptr, out), "by rounded rows");
  codes.cols = 8;
  in.rows.cols = 8;
  said(SmallProduct(nullptr, in, codes, nullptr, out), "a multiple of 16 columns, not 8");
  codes.scales = nullptr;
  said(SmallProduct(nullptr, in, codes, nullptr, out), "a scale for each row");
  odd = weight();
  odd.rows = 15;
  said(SmallGlu(nullptr, Plain(), Activation::kSilu, odd, Dense(nullptr, kBf16, 8, 7)),
       "as many gates as ups");
  said(SmallGlu(nullptr, Plain(), Activation::kSilu, weight(), Dense(nullptr, kFloat32, 8, 8)),
       "result is bf16");
}

}  // namespace
}  // namespace folio::kernels::cuda
