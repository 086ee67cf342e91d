// Products against sums in double precision. Emulated, it is the stand-in that is tested, and what
// is refused.
#include "kernels/cuda/ops/gemm.h"

#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

struct Sizes {
  uint32_t rows, n, k;
};
// Single rows, odd numbers, the reference model's shapes in small.
constexpr Sizes kSizes[] = {{1, 1, 8},     {1, 101, 40}, {3, 52, 40},   {17, 64, 52},
                            {16, 960, 72}, {65, 40, 33}, {130, 24, 576}};

struct PartSizes {
  uint32_t rows, n, k, count;
};

class GpuGemmTest : public StoredTest {
 protected:
  GpuGemmTest() : workspace_(std::vector<std::byte>(Gemm::kWorkspaceBytes)) {
    auto gemm = Gemm::Create(workspace_.data(), Gemm::kWorkspaceBytes);
    FOLIO_CHECK(gemm.ok());
    gemm_ = *std::move(gemm);
  }

  // Random numbers in rows that are `stride` apart.
  Stored Numbers(uint32_t rows, uint32_t cols, size_t stride) {
    Stored numbers(rows * stride, 0x7fff);  // NaN in between
    for (uint32_t row = 0; row < rows; ++row) {
      const Stored some = RoundAll(type(), RandomFloats(random_, cols));
      std::copy(some.begin(), some.end(), numbers.begin() + static_cast<ptrdiff_t>(row * stride));
    }
    return numbers;
  }

  void Expect(const Sizes& sizes, bool accumulate, bool tune) {
    const auto& [rows, n, k] = sizes;
    const size_t stride = PaddedStride(type(), k);
    const size_t out_stride = PaddedStride(DataType::kFloat32, n);
    const Stored in = Numbers(rows, k, stride);
    const Stored weight = Numbers(n, k, stride);
    const std::vector<float> before = RandomFloats(random_, rows * out_stride);
    const OnDevice<uint16_t> device_in(in);
    const OnDevice<uint16_t> device_weight(weight);
    OnDevice<float> device_out(before);
    const ConstTensor a(device_in.data(), type(), rows, k, stride);
    const ConstTensor b(device_weight.data(), type(), n, k, stride);
    const Tensor out{device_out.data(), DataType::kFloat32, rows, n, out_stride};
    if (tune) {
      ASSERT_TRUE(gemm_->Tune(nullptr, a, b, out, accumulate).ok());
      device_out.Write(before);
    }
    const absl::Status status = gemm_->Multiply(nullptr, a, b, out, accumulate);
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> got = device_out.Read();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / out_stride;
      const size_t col = i % out_stride;
      if (col >= n) {
        ASSERT_EQ(got[i], before[i]) << "between rows";
        continue;
      }
      double want = accumulate ? before[i] : 0;
      double size = std::fabs(want);
      for (uint32_t j = 0; j < k; ++j) {
        const double x =
            double{Value(type(), in[row * stride + j])} * Value(type(), weight[col * stride + j]);
        want += x;
        size += std::fabs(x);
      }
      ASSERT_NEAR(got[i], want, size * 1e-5 + 1e-6) << "row " << row << ", column " << col;
    }
  }

 private:
  OnDevice<std::byte> workspace_;

 protected:
  std::unique_ptr<Gemm> gemm_;
};

TEST_P(GpuGemmTest, SumsInFloat32) {
  for (const Sizes& sizes : kSizes) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.n << " x " << sizes.k);
      Expect(sizes, accumulate, false);
    }
  }
}

TEST_P(GpuGemmTest, TunedProductsAreTheSame) {
  for (const bool accumulate : {false, true}) Expect({33, 64, 128}, accumulate, true);
}

// Each part is the product of a piece of the columns, in numbers beside which there is NaN.
TEST_P(GpuGemmTest, PartsAreProductsOfPieces) {
  for (const auto& [rows, n, k, count] :
       {PartSizes{17, 40, 128, 2}, {33, 64, 192, 3}, {65, 24, 512, 8}, {3, 8, 64, 1}}) {
    for (const bool tune : {false, true}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << n << " x " << k << " / " << count);
      const size_t stride = PaddedStride(type(), k);
      const Stored in = Numbers(rows, k, stride);
      const Stored weight = Numbers(n, k, stride);
      const OnDevice<uint16_t> device_in(in);
      const OnDevice<uint16_t> device_weight(weight);
      const OnDevice<float> out(std::vector<float>(count * rows * n + 1, -1));
      const ConstTensor a(device_in.data(), type(), rows, k, stride);
      const ConstTensor b(device_weight.data(), type(), n, k, stride);
      const PartialSums parts{out.data(), count, rows, n};
      if (tune) {
        ASSERT_TRUE(gemm_->TuneInParts(nullptr, a, b, parts).ok());
      }
      const absl::Status status = gemm_->MultiplyInParts(nullptr, a, b, parts);
      ASSERT_TRUE(status.ok()) << status;
      const std::vector<float> got = out.Read();
      ASSERT_EQ(got.back(), -1) << "behind the parts";
      for (size_t i = 0; i + 1 < got.size(); ++i) {
        const size_t row = i / n % rows;
        const size_t first = i / n / rows * (k / count);
        double want = 0;
        double size = 0;
        for (size_t j = first; j < first + k / count; ++j) {
          const double x = double{Value(type(), in[row * stride + j])} *
                           Value(type(), weight[i % n * stride + j]);
          want += x;
          size += std::fabs(x);
        }
        ASSERT_NEAR(got[i], want, size * 1e-5 + 1e-6) << "number " << i;
      }
    }
  }
}

TEST_P(GpuGemmTest, ResultsAreRoundedToTheStoredType) {
  const uint32_t rows = 5;
  const uint32_t n = 24;
  const uint32_t k = 64;
  const OnDevice<uint16_t> in(Numbers(rows, k, k));
  const OnDevice<uint16_t> weight(Numbers(n, k, k));
  const OnDevice<float> full(std::vector<float>(rows * n));
  const OnDevice<uint16_t> half(Stored(rows * n));
  const ConstTensor a(in.data(), type(), rows, k, k);
  const ConstTensor b(weight.data(), type(), n, k, k);
  ASSERT_TRUE(
      gemm_->Multiply(nullptr, a, b, Dense(full.data(), DataType::kFloat32, rows, n), false).ok());
  ASSERT_TRUE(gemm_->Multiply(nullptr, a, b, Dense(half.data(), type(), rows, n), false).ok());
  const std::vector<float> want = full.Read();
  const Stored got = half.Read();
  for (size_t i = 0; i < got.size(); ++i) {
    // Sums of another order may lie on the other side of a border.
    ASSERT_NEAR(Value(type(), got[i]), want[i], std::fabs(want[i]) * Precision(type()) + 1e-4);
  }
}

TEST_P(GpuGemmTest, NoRowsAreNoWork) {
  const ConstTensor none(nullptr, type(), 0, 8, 8);
  const OnDevice<uint16_t> weight(Stored(64));
  EXPECT_TRUE(gemm_
                  ->Multiply(nullptr, none, {weight.data(), type(), 8, 8, 8},
                             Dense(nullptr, DataType::kFloat32, 0, 8), false)
                  .ok());
}

TEST_P(GpuGemmTest, WhatIsNotServedIsSaid) {
  const auto refusal = [&](const ConstTensor& in, const ConstTensor& weight, const Tensor& out,
                           bool accumulate = false) {
    const absl::Status status = gemm_->Multiply(nullptr, in, weight, out, accumulate);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(gemm_->Tune(nullptr, in, weight, out, accumulate), status);
    return std::string(status.message());
  };
  const auto said = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  const ConstTensor in(nullptr, type(), 2, 16, 16);
  const ConstTensor weight(nullptr, type(), 8, 16, 16);
  const Tensor out = Dense(nullptr, DataType::kFloat32, 2, 8);
  const DataType other = type() == DataType::kBf16 ? DataType::kFp16 : DataType::kBf16;
  said(refusal({nullptr, DataType::kFloat32, 2, 16, 16}, weight, out), "have one type");
  said(refusal(in, {nullptr, other, 8, 16, 16}, out), "have one type");
  said(refusal(in, weight, Dense(nullptr, other, 2, 8)), "results must be float32");
  said(refusal(in, weight, Dense(nullptr, type(), 2, 8), true), "results must be float32");
  said(refusal(in, {nullptr, type(), 8, 24, 24}, out), "[2, 16] times [8, 24] transposed");
  said(refusal(in, weight, Dense(nullptr, DataType::kFloat32, 1, 8)), "is not [1, 8]");
  said(refusal(in, weight, Dense(nullptr, DataType::kFloat32, 2, 12)), "is not [2, 12]");
  said(refusal({nullptr, type(), 2, 0, 16}, {nullptr, type(), 8, 0, 16}, out), "is empty");
  said(refusal({nullptr, type(), 2, 16, 20}, weight, out), "multiples of 16 bytes");
  said(refusal({nullptr, type(), 2, 16, 8}, weight, out), "multiples of 16 bytes");
  said(refusal({reinterpret_cast<void*>(8), type(), 2, 16, 16}, weight, out), "of 16 bytes");
}

TEST_P(GpuGemmTest, PartsThatAreNotServedAreNamed) {
  const auto refused = [&](const ConstTensor& in, const PartialSums& parts, const char* what) {
    const ConstTensor weight(nullptr, in.type, 8, in.cols, in.stride);
    const absl::Status status = gemm_->MultiplyInParts(nullptr, in, weight, parts);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(gemm_->TuneInParts(nullptr, in, weight, parts), status);
    EXPECT_NE(status.message().find(what), std::string::npos) << status;
  };
  const ConstTensor in(nullptr, type(), 2, 32, 32);
  refused(in, {nullptr, 0, 2, 8}, "no 0 equal pieces");
  refused(in, {nullptr, 3, 2, 8}, "no 3 equal pieces");
  refused(in, {nullptr, 8, 2, 8}, "no 8 equal pieces of a multiple of 8");
  refused(in, {nullptr, 2, 3, 8}, "2 rows have no parts of 3 rows");
  refused(in, {nullptr, 2, 2, 12}, "is not [2, 12]");
  refused({nullptr, DataType::kE4M3, 2, 32, 32}, {nullptr, 2, 2, 8}, "E4M3");
}

INSTANTIATE_TEST_SUITE_P(Types, GpuGemmTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
