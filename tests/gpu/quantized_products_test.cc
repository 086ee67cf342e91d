// Products of quantised weights against sums in double precision over the values that the format
// stands for, what they do beside the product, and what is refused.
#include "kernels/cuda/ops/quantized_products.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "tests/gpu/packed_matrix.h"

namespace folio::kernels::cuda {
namespace {

using cpu::RandomQuantized;

constexpr DataType kBf16 = DataType::kBf16;
constexpr DataType kFloat32 = DataType::kFloat32;

// Float32 sums lose this share of the size of their terms. A term with an offset has two parts,
// which may be larger than the value. Rounding to bf16 loses 1 / 256 of each.
constexpr double kFloats = 1e-5;
constexpr double kRounded = 1 / 256.0 + kFloats;

// One output, parts of tiles and cells, whole ones, and more than one turn of all warps. Columns
// are made a whole number of the format's blocks.
struct Sizes {
  uint32_t outputs, cols;
};
constexpr Sizes kSizes[] = {{1, 32}, {17, 96}, {16, 64}, {40, 512}, {33, 1056}, {18, 4128}};

uint32_t WholeBlocks(const QuantizedFormat& format, uint32_t cols) {
  return (cols + format.super - 1) / format.super * format.super;
}

class QuantizedProductsTest : public ::testing::TestWithParam<QuantizedFormat> {
 protected:
  PackedMatrix Matrix(uint32_t rows, uint32_t cols) {
    return {random_, {{GetParam(), rows}}, WholeBlocks(GetParam(), cols)};
  }
  Random random_{29};
};

// The result of a product on the device, which is float32 and has NaN where nothing is written.
void ExpectSums(Random& random, const PackedMatrix& matrix, const Inputs& inputs,
                const SmallInput& in, bool adds) {
  SCOPED_TRACE(testing::Message() << in.rows.rows << " x " << matrix.rows() << " x "
                                  << matrix.cols() << (in.norm != nullptr ? ", normed" : ""));
  const size_t stride = PaddedStride(kFloat32, matrix.rows());
  const std::vector<float> before = RandomFloats(random, (in.rows.rows + 1) * stride);
  const std::vector<float> bias = RandomFloats(random, matrix.rows());
  const OnDevice<float> out(before);
  const OnDevice<float> added(bias);
  const Tensor result{out.data(), kFloat32, in.rows.rows, matrix.rows(), stride};
  const absl::Status status =
      adds ? AddSmallProduct(nullptr, in, matrix.tensor(), result)
           : SmallProduct(nullptr, in, matrix.tensor(), added.data(), result);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<float> got = out.Read();
  for (size_t i = 0; i < got.size(); ++i) {
    const auto row = static_cast<uint32_t>(i / stride);
    const auto col = static_cast<uint32_t>(i % stride);
    if (row >= in.rows.rows || col >= matrix.rows()) {
      ASSERT_EQ(got[i], before[i]) << "outside of the result";
      continue;
    }
    const Inputs::Sum sum = inputs.Product(matrix, in.norm != nullptr, row, col);
    const double more = adds ? before[i] : bias[col];
    const double share = in.norm != nullptr ? kRounded : kFloats;
    ASSERT_NEAR(got[i], sum.value + more, sum.size * share + std::fabs(more) * 1e-6 + 1e-5)
        << "row " << row << ", column " << col;
  }
}

TEST_P(QuantizedProductsTest, SumsInFloat32) {
  for (const auto& [outputs, cols] : kSizes) {
    const PackedMatrix matrix = Matrix(outputs, cols);
    for (uint32_t rows = 1; rows <= kMaxSmallRows; rows += cols > 512 ? 5 : 1) {
      const Inputs inputs(random_, rows, matrix.cols());
      ExpectSums(random_, matrix, inputs, inputs.Plain(rows % 2 == 0 ? 132 : 1), rows % 3 == 0);
    }
  }
}

TEST_P(QuantizedProductsTest, NormalisesOnTheWayIn) {
  for (const auto& [outputs, cols] : {Sizes{17, 96}, {50, 1056}}) {
    const PackedMatrix matrix = Matrix(outputs, cols);
    for (const uint32_t rows : {1u, 5u, 8u, 11u}) {
      const Inputs inputs(random_, rows, matrix.cols());
      ExpectSums(random_, matrix, inputs, inputs.Normed(), /*adds=*/false);
    }
  }
}

double Gate(Activation activation, double gate) {
  if (activation == Activation::kSilu) return gate / (1 + std::exp(-gate));
  const double u = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
  return gate * (1 + std::tanh(u)) / 2;
}

TEST_P(QuantizedProductsTest, GatesOnTheWayOut) {
  for (const auto& [ffn, cols] : {Sizes{1, 32}, {33, 96}, {40, 1056}}) {
    for (const auto& [normed, activation] : {std::pair(false, Activation::kSilu),
                                             {true, Activation::kSilu},
                                             {false, Activation::kGelu}}) {
      const uint32_t k = WholeBlocks(GetParam(), cols);
      const PackedMatrix matrix(random_, {{GetParam(), ffn}, {GetParam(), ffn}}, k);
      const uint32_t rows = normed ? 8 : ffn == 33 ? 14 : 3;
      const Inputs inputs(random_, rows, k);
      const OnDevice<uint16_t> out(Stored(size_t{rows} * ffn));
      const absl::Status status =
          SmallGlu(nullptr, normed ? inputs.Normed() : inputs.Plain(), activation, matrix.tensor(),
                   Dense(out.data(), kBf16, rows, ffn));
      ASSERT_TRUE(status.ok()) << status;
      const Stored got = out.Read();
      for (uint32_t i = 0; i < rows * ffn; ++i) {
        const Inputs::Sum gate = inputs.Product(matrix, normed, i / ffn, i % ffn);
        const Inputs::Sum up = inputs.Product(matrix, normed, i / ffn, ffn + i % ffn);
        const double precision = normed ? kRounded : kFloats;
        const double want = Gate(activation, gate.value) * up.value;
        // The slopes of both are at most 1.13.
        const double apart = std::fabs(want) / 256 + 1e-5 +
                             1.13 * gate.size * precision * (std::fabs(up.value) + 1) +
                             up.size * precision * (std::fabs(gate.value) + 1);
        ASSERT_NEAR(Value(kBf16, got[i]), want, apart) << ffn << " x " << k << ", result " << i;
      }
    }
  }
}

TEST_P(QuantizedProductsTest, ARowIsMultipliedAlikeInAnyBatch) {
  const PackedMatrix matrix = Matrix(50, 1056);
  constexpr uint32_t kRows = kMaxSmallRows;
  const Inputs inputs(random_, kRows, matrix.cols());
  const OnDevice<float> together(std::vector<float>(size_t{kRows} * 50));
  const auto multiply = [&](const SmallInput& in, float* out) {
    ASSERT_TRUE(
        SmallProduct(nullptr, in, matrix.tensor(), nullptr, Dense(out, kFloat32, in.rows.rows, 50))
            .ok());
  };
  multiply(inputs.Plain(), together.data());
  const std::vector<float> want = together.Read();
  for (uint32_t row = 0; row < kRows; ++row) {
    const OnDevice<float> alone(std::vector<float>(50));
    multiply(inputs.Row(row), alone.data());
    ASSERT_EQ(alone.Read(),
              std::vector<float>(want.begin() + row * 50, want.begin() + row * 50 + 50));
  }
}

TEST_P(QuantizedProductsTest, DequantisesToTheBit) {
  for (const auto& [rows, cols] : kSizes) {
    const PackedMatrix matrix = Matrix(rows, cols);
    const size_t stride = PaddedStride(kBf16, matrix.cols());
    const OnDevice<uint16_t> out(Stored(rows * stride, 0x7fff));
    const absl::Status status =
        Dequantize(nullptr, matrix.tensor(), {out.data(), kBf16, rows, matrix.cols(), stride});
    ASSERT_TRUE(status.ok()) << status;
    Stored want(rows * stride, 0x7fff);
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t col = 0; col < matrix.cols(); ++col) {
        want[row * stride + col] = Round(kBf16, matrix.values()[size_t{row} * matrix.cols() + col]);
      }
    }
    ASSERT_EQ(out.Read(), want) << rows << " x " << matrix.cols();
  }
}

// The bytes of each format in a file, for 256 values.
TEST_P(QuantizedProductsTest, TakesAboutTheMemoryOfTheFile) {
  constexpr uint32_t kBytes[] = {144, 160, 176, 192, 272, 144, 144, 176, 210, 136};
  static_assert(std::size(kBytes) == std::size(kQuantizedFormats));
  const auto* place = std::ranges::find(kQuantizedFormats, GetParam());
  const double file = 4096.0 * 2048 / 256 * kBytes[place - kQuantizedFormats];
  EXPECT_LE(QuantizedAreas(GetParam(), 4096, 2048).bytes, 1.03 * file);
}

std::string NameOf(const testing::TestParamInfo<QuantizedFormat>& info) {
  constexpr const char* kNames[] = {"Q4_0",   "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                                    "IQ4_NL", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"};
  return kNames[info.index];
}
INSTANTIATE_TEST_SUITE_P(Formats, QuantizedProductsTest, testing::ValuesIn(kQuantizedFormats),
                         NameOf);

// Queries and keys beside values in another format, of row counts that are no multiples of tiles.
TEST(QuantizedPartsTest, PartsOfSeveralFormatsAreOneMatrix) {
  Random random(5);
  const PackedMatrix matrix(
      random, {{kQuantizedFormats[6], 40}, {kQuantizedFormats[8], 24}, {kQuantizedFormats[4], 9}},
      512);
  const Inputs inputs(random, 4, 512);
  ExpectSums(random, matrix, inputs, inputs.Plain(), false);
  ExpectSums(random, matrix, inputs, inputs.Plain(), true);
  ExpectSums(random, matrix, inputs, inputs.Normed(), false);
  const OnDevice<uint16_t> out(Stored(size_t{73} * 512));
  ASSERT_TRUE(Dequantize(nullptr, matrix.tensor(), Dense(out.data(), kBf16, 73, 512)).ok());
  EXPECT_EQ(out.Read(), RoundAll(kBf16, matrix.values()));
  const OnDevice<uint16_t> rounded(Stored(size_t{4} * 73 + 4));
  ASSERT_TRUE(SmallProduct(nullptr, inputs.Plain(), matrix.tensor(), nullptr,
                           {rounded.data(), kBf16, 4, 73, 74})
                  .ok());
  const Inputs::Sum sum = inputs.Product(matrix, false, 3, 72);
  EXPECT_NEAR(Value(kBf16, rounded.Read()[3 * 74 + 72]), sum.value,
              std::fabs(sum.value) / 256 + sum.size * kFloats);
}

// Several matrices of one format are packed like one.
TEST(QuantizedPartsTest, MatricesOfOneFormatAreOnePart) {
  Random random(6);
  const QuantizedFormat format = kQuantizedFormats[7];
  const RandomQuantized first(random, format, 21, 256);
  const RandomQuantized second(random, format, 30, 256);
  std::vector<std::byte> packed(QuantizedAreas(format, 51, 256).bytes, std::byte{0xff});
  PackQuantized({&first, &second}, absl::MakeSpan(packed));
  const OnDevice<std::byte> held(packed);
  QuantizedParts parts{{{held.data(), format, 51}}, 1};
  ConstTensor tensor(nullptr, kBf16, 51, 256, 0);
  tensor.parts = &parts;
  const OnDevice<uint16_t> out(Stored(size_t{51} * 256));
  ASSERT_TRUE(Dequantize(nullptr, tensor, Dense(out.data(), kBf16, 51, 256)).ok());
  std::vector<float> want = first.Values();
  const std::vector<float> below = second.Values();
  want.insert(want.end(), below.begin(), below.end());
  EXPECT_EQ(out.Read(), RoundAll(kBf16, want));
}

TEST(QuantizedPartsTest, WhatIsNotServedIsSaid) {
  Random random(7);
  const auto said = [](const absl::Status& status, const char* what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(what), std::string::npos) << status;
  };
  PackedMatrix matrix(random, {{kQuantizedFormats[0], 16}, {kQuantizedFormats[4], 16}}, 64);
  const Inputs inputs(random, 8, 64);
  const auto product = [&](const SmallInput& in) {
    return SmallProduct(nullptr, in, matrix.tensor(), nullptr, Dense(nullptr, kFloat32, 8, 32));
  };
  SmallInput in = inputs.Normed();
  in.exact = true;
  said(product(in), "by rounded rows");
  in = inputs.Plain();
  in.rows.rows = 17;
  said(product(in), "serve 16 rows, not 17");
  said(SmallGlu(nullptr, inputs.Plain(), Activation::kSilu, matrix.tensor(),
                Dense(nullptr, kBf16, 8, 16)),
       "two parts of one format");
  said(Dequantize(nullptr, matrix.tensor(), Dense(nullptr, kBf16, 16, 64)), "in its shape");
  matrix.parts().at[0].rows = 15;
  said(product(inputs.Plain()), "all of its rows");
  matrix.parts().at[0].format = kQuantizedFormats[6];
  said(product(inputs.Plain()), "whole blocks");
  matrix.parts().at[0].format.zero = 1;
  said(product(inputs.Plain()), "no kernel computes with this format");
}

}  // namespace
}  // namespace folio::kernels::cuda
