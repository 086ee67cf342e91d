// Parts of products: how many there are, and their sums with residual and norm against the plain
// family.
#include "kernels/cuda/ops/partial_sums.h"

#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

using cpu::AsMatrix;

constexpr DataType kFloat32 = DataType::kFloat32;
constexpr float kEps = 1e-5f;

TEST(PartsOfProductTest, OccupyAnH100) {
  constexpr uint32_t kH100 = 132;
  struct Case {
    uint32_t rows, n, k, parts;
  };
  for (const auto& [rows, n, k, parts] : {
           Case{17, 2048, 2048, 4},  // the output product of Llama-3.2-1B
           {128, 2048, 2048, 4},
           {129, 2048, 2048, 1},
           {64, 2048, 8192, 4},  // down
           {64, 3072, 3072, 3},  // Llama-3.2-3B
           {64, 3072, 8192, 4},  // 3 does not divide it
           {64, 4096, 4096, 2},  // Llama-3.1-8B
           {128, 4096, 14336, 2},
           {64, 8192, 8192, 1},  // tiles enough
           {64, 512, 4096, 8},   // never enough
           {128, 512, 2048, 4},  // eight parts would be more bytes than the weights
           {64, 2048, 2080, 1},  // no pieces
           {64, 2050, 2048, 1},  // no packs
       }) {
    EXPECT_EQ(PartsOfProduct(rows, n, k, kH100), parts)
        << rows << " rows by [" << n << ", " << k << "]";
  }
}

class GpuPartialSumsTest : public StoredTest {
 protected:
  // The sum in the order that is promised, and the norm by the plain family.
  void Expect(uint32_t rows, uint32_t cols, uint32_t count, bool norm) {
    SCOPED_TRACE(testing::Message() << count << " parts of " << rows << " x " << cols);
    const uint32_t stride = cols + 8;
    const uint32_t out_stride = cols + 4;
    std::vector<float> x = RandomFloats(random_, rows * stride, 3.0f);
    std::vector<float> parts = RandomFloats(random_, count * rows * cols);
    std::fill_n(x.begin(), cols, 0.0f);
    for (uint32_t i = 0; i < count; ++i) std::fill_n(parts.begin() + i * rows * cols, cols, 0.0f);
    const std::vector<float> weight = RandomFloats(random_, cols);
    const OnDevice<float> hidden(x);
    const OnDevice<float> device_parts(parts);
    const OnDevice<float> factors(weight);
    const OnDevice<uint16_t> out(Stored(rows * out_stride, 0x7fff));
    const absl::Status status = AddPartsRmsNorm(nullptr, {device_parts.data(), count, rows, cols},
                                                {hidden.data(), kFloat32, rows, cols, stride},
                                                norm ? factors.data() : nullptr, kEps,
                                                {out.data(), type(), rows, cols, out_stride});
    ASSERT_TRUE(status.ok()) << status;
    for (uint32_t i = 0; i < rows * cols; ++i) {
      float sum = 0;
      for (uint32_t part = 0; part < count; ++part) sum += parts[part * rows * cols + i];
      x[i / cols * stride + i % cols] += sum;
    }
    ASSERT_EQ(hidden.Read(), x) << "the sum, and nothing between rows";
    cpu::ActivationBuffer want(*plain_, rows, cols);
    plain_->RmsNorm(threads_, {x.data(), rows, cols, stride}, weight, kEps, want.view());
    const Stored got = out.Read();
    for (size_t i = 0; i < got.size(); ++i) {
      if (!norm || i % out_stride >= cols) {
        ASSERT_EQ(got[i], 0x7fff) << "nothing is written there";
        continue;
      }
      const float wanted = want.at(i / out_stride * cols + i % out_stride);
      ASSERT_NEAR(Value(type(), got[i]), wanted, std::fabs(wanted) * Precision(type()) + 1e-6)
          << "element " << i;
    }
  }

  std::unique_ptr<cpu::CpuOps> plain_ = cpu::MakePlainOps();
  ThreadPool threads_{1};
};

// Rows that one, two and four packs of each thread hold, whole ones and others.
TEST_P(GpuPartialSumsTest, EqualPlain) {
  for (const uint32_t cols : {4u, 40u, 576u, 2048u, 2052u, 4096u, 4100u, 8192u}) {
    Expect(3, cols, 2, /*norm=*/true);
  }
  for (uint32_t count = 1; count <= kMaxParts; ++count) Expect(2, 332, count, /*norm=*/true);
}

TEST_P(GpuPartialSumsTest, AreAddedAloneWithoutANorm) {
  for (const uint32_t cols : {64u, 2112u}) Expect(5, cols, 4, /*norm=*/false);
}

TEST_P(GpuPartialSumsTest, NoRowsAreNoWork) {
  EXPECT_TRUE(AddPartsRmsNorm(nullptr, {nullptr, 2, 0, 8}, Dense(nullptr, kFloat32, 0, 8), nullptr,
                              kEps, Dense(nullptr, type(), 0, 8))
                  .ok());
}

TEST_P(GpuPartialSumsTest, WhatIsNotServedIsSaid) {
  const auto refused = [&](const PartialSums& parts, const Tensor& hidden, const Tensor& out) {
    return AddPartsRmsNorm(nullptr, parts, hidden, nullptr, kEps, out).code() ==
           absl::StatusCode::kInvalidArgument;
  };
  const PartialSums parts{nullptr, 2, 3, 8};
  const Tensor hidden = Dense(nullptr, kFloat32, 3, 8);
  const Tensor out = Dense(nullptr, type(), 3, 8);
  EXPECT_TRUE(refused(parts, Dense(nullptr, type(), 3, 8), out)) << "hidden is not float32";
  EXPECT_TRUE(refused({nullptr, 2, 4, 8}, hidden, out)) << "another number of rows";
  EXPECT_TRUE(refused({nullptr, 2, 3, 12}, hidden, out)) << "another length";
  EXPECT_TRUE(refused({nullptr, 0, 3, 8}, hidden, out)) << "no parts";
  EXPECT_TRUE(refused(parts, hidden, Dense(nullptr, type(), 2, 8))) << "too few rows for the norm";
  EXPECT_TRUE(refused(parts, hidden, Dense(nullptr, kFloat32, 3, 8))) << "a norm in float32";
  EXPECT_TRUE(refused(parts, {nullptr, kFloat32, 3, 8, 10}, out)) << "rows that are not aligned";
  EXPECT_TRUE(
      refused({nullptr, 2, 3, 6}, Dense(nullptr, kFloat32, 3, 6), Dense(nullptr, type(), 3, 6)))
      << "no packs";
  EXPECT_TRUE(refused({nullptr, 2, 3, 8196}, Dense(nullptr, kFloat32, 3, 8196),
                      Dense(nullptr, type(), 3, 8196)))
      << "too long";
}

INSTANTIATE_TEST_SUITE_P(Types, GpuPartialSumsTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
