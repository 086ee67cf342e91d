// Products of E4M3 against sums in double precision. Emulated, it is the stand-in that is tested,
// and what is refused.
#include "kernels/cuda/ops/gemm.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

// Codes and scales of a random matrix.
struct Coded {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  uint32_t cols;
  double At(size_t row, size_t col) const {
    return double{e4m3{codes[row * cols + col]}.ToFloat()} * scales[row];
  }
};

class GpuFp8GemmTest : public testing::Test {
 protected:
  GpuFp8GemmTest() : workspace_(std::vector<std::byte>(Gemm::kWorkspaceBytes)) {
    auto gemm = Gemm::Create(workspace_.data(), Gemm::kWorkspaceBytes);
    FOLIO_CHECK(gemm.ok());
    gemm_ = *std::move(gemm);
  }
  void SetUp() override {
    const absl::Status served = Gemm::CheckRowScales();
    if (!served.ok()) GTEST_SKIP() << served;
  }

  Coded Numbers(uint32_t rows, uint32_t cols) {
    Coded made{std::vector<uint8_t>(rows * cols), std::vector<float>(rows), cols};
    for (uint32_t row = 0; row < rows; ++row) {
      const std::vector<float> some = RandomFloats(random_, cols, 1.0f + static_cast<float>(row));
      std::vector<e4m3> codes(cols);
      made.scales[row] = QuantizeRow(some.data(), cols, codes.data());
      for (uint32_t i = 0; i < cols; ++i) made.codes[row * cols + i] = codes[i].bits;
    }
    return made;
  }

  // Random factors, the second time others, so that a product takes the scales of its own call.
  void Expect(uint32_t rows, uint32_t n, uint32_t k, DataType out_type, bool accumulate,
              bool tune) {
    SCOPED_TRACE(testing::Message() << rows << " x " << n << " x " << k);
    for (int time = 0; time < 2; ++time) {
      const Coded in = Numbers(rows, k);
      const Coded weight = Numbers(n, k);
      const std::vector<float> before = RandomFloats(random_, rows * n);
      const OnDevice<uint8_t> in_codes(in.codes), weight_codes(weight.codes);
      const OnDevice<float> in_scales(in.scales), weight_scales(weight.scales);
      OnDevice<float> full(before);
      const OnDevice<uint16_t> half(Stored(before.size()));
      const ConstTensor a(in_codes.data(), DataType::kE4M3, rows, k, k, in_scales.data());
      const ConstTensor b(weight_codes.data(), DataType::kE4M3, n, k, k, weight_scales.data());
      const bool wide = out_type == DataType::kFloat32;
      const Tensor out =
          Dense(wide ? static_cast<void*>(full.data()) : half.data(), out_type, rows, n);
      if (tune) {
        ASSERT_TRUE(gemm_->Tune(nullptr, a, b, out, accumulate).ok());
        full.Write(before);
      }
      const absl::Status status = gemm_->Multiply(nullptr, a, b, out, accumulate);
      ASSERT_TRUE(status.ok()) << status;
      const std::vector<float> floats = full.Read();
      const Stored rounded = half.Read();
      for (size_t i = 0; i < before.size(); ++i) {
        double want = accumulate ? before[i] : 0;
        double size = std::fabs(want);
        for (uint32_t j = 0; j < k; ++j) {
          const double x = in.At(i / n, j) * weight.At(i % n, j);
          want += x;
          size += std::fabs(x);
        }
        // Hopper's tensor cores cut each product some 13 bits below the largest one that they add
        // at once. An H200 was off by 2.3e-4 of `size`.
        const double off = size / 2048 + 1e-6;
        const float got = wide ? floats[i] : Value(out_type, rounded[i]);
        ASSERT_NEAR(got, want, off + (wide ? 0 : std::fabs(want) / 128)) << i;
      }
    }
  }

  Random random_{72};

 private:
  OnDevice<std::byte> workspace_;

 protected:
  std::unique_ptr<Gemm> gemm_;
};

TEST_F(GpuFp8GemmTest, CodesAreMultipliedWithTheScalesOfBothRows) {
  for (const uint32_t rows : {1u, 3u, 17u, 64u, 130u}) {
    for (const bool accumulate : {false, true}) {
      Expect(rows, 48, 64, DataType::kFloat32, accumulate, false);
      Expect(rows, 112, 576, DataType::kFloat32, accumulate, false);
    }
    Expect(rows, 96, 144, DataType::kBf16, false, false);
  }
}

TEST_F(GpuFp8GemmTest, TunedProductsAreTheSame) {
  for (const bool accumulate : {false, true}) {
    Expect(33, 64, 128, DataType::kFloat32, accumulate, true);
  }
}

TEST_F(GpuFp8GemmTest, WhatIsNotServedIsSaid) {
  const OnDevice<float> scales(std::vector<float>(64));
  const auto refusal = [&](uint32_t n, uint32_t k, const float* of_in, DataType out,
                           bool accumulate) {
    const absl::Status status = gemm_->Multiply(
        nullptr, {nullptr, DataType::kE4M3, 2, k, 32, of_in},
        {nullptr, DataType::kE4M3, n, k, 32, scales.data()}, Dense(nullptr, out, 2, n), accumulate);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const auto said = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  said(refusal(16, 32, nullptr, DataType::kFloat32, false), "need scales");
  said(refusal(24, 32, scales.data(), DataType::kFloat32, false), "[24, 32] of E4M3");
  said(refusal(16, 24, scales.data(), DataType::kFloat32, false), "[16, 24] of E4M3");
  said(refusal(16, 32, scales.data(), DataType::kFp16, false), "bf16 for E4M3");
  said(refusal(16, 32, scales.data(), DataType::kBf16, true), "bf16 for E4M3");
}

}  // namespace
}  // namespace folio::kernels::cuda
