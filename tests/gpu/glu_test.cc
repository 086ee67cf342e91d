// Gates of the feed-forward network, and norms of what is added to the state.
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/cuda/ops/ops.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kGluCols[] = {1, 7, 64, 333, 576, 2048};

class GpuGluTest : public StoredTest {};

double Activate(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  return x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) / 2;
}

TEST_P(GpuGluTest, IsWhatItSays) {
  const uint32_t rows = 4;
  for (const uint32_t cols : kGluCols) {
    for (const auto& [wide, activation] : {std::pair(true, Activation::kSilu),
                                           {false, Activation::kSilu},
                                           {true, Activation::kGelu},
                                           {false, Activation::kGelu}}) {
      std::vector<float> in = RandomFloats(random_, size_t{rows} * 2 * cols, 4.0f);
      in[0] = -100;  // exp of it overflows
      in[cols - 1] = 100;
      const Stored rounded = RoundAll(type(), in);
      const OnDevice<float> full(in);
      const OnDevice<uint16_t> half(rounded);
      const OnDevice<uint16_t> out(Stored(rows * cols, 0x7fff));
      void* data = wide ? static_cast<void*>(full.data()) : half.data();
      const absl::Status status =
          Glu(nullptr, activation, Dense(data, wide ? DataType::kFloat32 : type(), rows, 2 * cols),
              Dense(out.data(), type(), rows, cols));
      ASSERT_TRUE(status.ok()) << status;
      const Stored got = out.Read();
      for (size_t i = 0; i < got.size(); ++i) {
        const size_t at = i / cols * 2 * cols + i % cols;
        const double gate = wide ? in[at] : Value(type(), rounded[at]);
        const double up = wide ? in[at + cols] : Value(type(), rounded[at + cols]);
        const double want = Activate(activation, gate) * up;
        ASSERT_NEAR(Value(type(), got[i]), want, std::fabs(want) * Precision(type()) + 1e-6) << i;
      }
    }
  }
}

// What is added is float32, or bf16 as ranks exchange it. Rows may be farther apart than they are
// long, and a row of zeros adds nothing.
TEST_P(GpuGluTest, WhatIsAddedIsNormalised) {
  const uint32_t rows = 5;
  for (const uint32_t cols : kGluCols) {
    for (const bool wide : {true, false}) {
      const uint32_t stride = cols + (cols % 4 == 0 ? 8 : 3);
      std::vector<float> x = RandomFloats(random_, rows * stride, 3.0f);
      std::vector<float> added = RandomFloats(random_, rows * cols);
      std::fill_n(added.begin(), cols, 0.0f);
      const Stored rounded = RoundAll(DataType::kBf16, added);
      const std::vector<float> weight = RandomFloats(random_, cols);
      const OnDevice<float> hidden(x);
      const OnDevice<float> full(added);
      const OnDevice<uint16_t> half(rounded);
      const OnDevice<float> factors(weight);
      void* data = wide ? static_cast<void*>(full.data()) : half.data();
      const absl::Status status =
          AddNormed(nullptr, Dense(data, wide ? DataType::kFloat32 : DataType::kBf16, rows, cols),
                    factors.data(), 1e-5f, {hidden.data(), DataType::kFloat32, rows, cols, stride});
      ASSERT_TRUE(status.ok()) << status;
      const std::vector<float> got = hidden.Read();
      const auto at = [&](size_t i) -> double {
        return wide ? added[i] : Value(DataType::kBf16, rounded[i]);
      };
      for (uint32_t row = 0; row < rows; ++row) {
        double squares = 0;
        for (uint32_t i = 0; i < cols; ++i) squares += at(row * cols + i) * at(row * cols + i);
        const double scale = 1 / std::sqrt(squares / cols + 1e-5);
        for (uint32_t i = 0; i < stride; ++i) {
          const double more = i < cols ? at(row * cols + i) * scale * weight[i] : 0;
          const double want = x[row * stride + i] + more;
          ASSERT_NEAR(got[row * stride + i], want, (std::fabs(want) + std::fabs(more)) * 1e-6)
              << "element " << i << " of " << cols;
        }
      }
    }
  }
}

TEST_P(GpuGluTest, WhatIsNotServedIsSaid) {
  const OnDevice<float> some(std::vector<float>(64));
  const Tensor floats = Dense(some.data(), DataType::kFloat32, 1, 8);
  const auto refused = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(AddNormed(nullptr, floats, some.data(), 1, Dense(some.data(), type(), 1, 8)).code(),
            refused);
  EXPECT_EQ(AddNormed(nullptr, Dense(some.data(), DataType::kFloat32, 1, 4), some.data(), 1, floats)
                .code(),
            refused);
  EXPECT_EQ(
      AddNormed(nullptr, Dense(some.data(), DataType::kFp16, 1, 8), some.data(), 1, floats).code(),
      refused);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuGluTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
