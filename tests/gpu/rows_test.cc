// Embedding, normalisation and biases against the plain family.
#include "kernels/cuda/ops/ops.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

using cpu::AsMatrix;

constexpr uint32_t kCols[] = {1, 7, 64, 333, 576, 2048};

class GpuRowsTest : public StoredTest {
 protected:
  std::unique_ptr<cpu::CpuOps> plain_ = cpu::MakePlainOps();
  ThreadPool threads_{1};
};

TEST_P(GpuRowsTest, EmbedIsExactAndZeroElsewhere) {
  for (const uint32_t cols : kCols) {
    const uint32_t vocab = 40;
    const uint32_t first = 100;
    const Stored table = RoundAll(type(), RandomFloats(random_, vocab * cols));
    std::vector<uint32_t> ids{100, 139, 99, 140, 0, 0xffffffff};
    for (uint32_t i = 0; i < 20; ++i) ids.push_back(first + random_() % vocab);
    const OnDevice<uint16_t> device_table(table);
    const OnDevice<uint32_t> device_ids(ids);
    const OnDevice<float> out(std::vector<float>(ids.size() * cols, -1));
    constexpr float kScale = 0.75f;
    ASSERT_TRUE(Embed(nullptr, Dense(device_table.data(), type(), vocab, cols), first,
                      device_ids.array(), kScale,
                      Dense(out.data(), DataType::kFloat32, ids.size(), cols))
                    .ok());
    const std::vector<float> got = out.Read();
    for (size_t i = 0; i < got.size(); ++i) {
      const uint32_t row = ids[i / cols] - first;
      const float want = row < vocab ? kScale * Value(type(), table[row * cols + i % cols]) : 0;
      ASSERT_EQ(got[i], want) << "row " << i / cols << " of " << cols;
    }
  }
}

// The addend has one of three types, and rows may be farther apart than they are long.
TEST_P(GpuRowsTest, AddRmsNormEqualsPlain) {
  const uint32_t rows = 9;
  for (const uint32_t cols : kCols) {
    for (const auto delta_type : {DataType::kFloat32, type(), DataType::kFp16}) {
      const bool none = delta_type == DataType::kFp16 && type() == DataType::kBf16;
      const uint32_t stride = cols + (cols % 4 == 0 ? 8 : 3);
      std::vector<float> x = RandomFloats(random_, rows * stride, 3.0f);
      std::fill_n(x.begin(), cols, 0.0f);
      std::vector<float> delta = RandomFloats(random_, rows * cols);
      std::fill_n(delta.begin(), cols, 0.0f);
      const Stored rounded = RoundAll(type(), delta);
      const std::vector<float> weight = RandomFloats(random_, cols);
      const OnDevice<float> hidden(x);
      const OnDevice<float> full(delta);
      const OnDevice<uint16_t> half(rounded);
      const OnDevice<float> factors(weight);
      const OnDevice<uint16_t> out(Stored(rows * cols, 0x7fff));
      const bool wide = delta_type == DataType::kFloat32;
      const ConstTensor added(none   ? nullptr
                              : wide ? static_cast<void*>(full.data())
                                     : half.data(),
                              wide ? DataType::kFloat32 : type(), rows, cols, cols);
      const absl::Status status =
          AddRmsNorm(nullptr, {hidden.data(), DataType::kFloat32, rows, cols, stride}, added,
                     factors.data(), 1e-5f, Dense(out.data(), type(), rows, cols));
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < rows * cols && !none; ++i) {
        x[i / cols * stride + i % cols] += wide ? delta[i] : Value(type(), rounded[i]);
      }
      ASSERT_EQ(hidden.Read(), x) << "the sum, and nothing between rows";
      cpu::ActivationBuffer want(*plain_, rows, cols);
      plain_->RmsNorm(threads_, {x.data(), rows, cols, stride}, weight, 1e-5f, want.view());
      const Stored got = out.Read();
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(Value(type(), got[i]), want.at(i),
                    std::fabs(want.at(i)) * Precision(type()) + 1e-6)
            << "element " << i << " of rows of " << cols;
      }
    }
  }
}

TEST_P(GpuRowsTest, ARowIsNormalisedAlikeInAnyBatch) {
  const uint32_t rows = 5;
  const uint32_t cols = 576;
  const std::vector<float> x = RandomFloats(random_, rows * cols);
  const OnDevice<float> weight(RandomFloats(random_, cols));
  const OnDevice<float> hidden(x);
  const OnDevice<uint16_t> together(Stored(rows * cols));
  const OnDevice<uint16_t> alone(Stored(rows * cols));
  const auto norm = [&](uint32_t first, uint32_t count, uint16_t* out) {
    return AddRmsNorm(nullptr, Dense(hidden.data() + first * cols, DataType::kFloat32, count, cols),
                      {}, weight.data(), 1e-5f, Dense(out + first * cols, type(), count, cols));
  };
  ASSERT_TRUE(norm(0, rows, together.data()).ok());
  for (uint32_t row = 0; row < rows; ++row) ASSERT_TRUE(norm(row, 1, alone.data()).ok());
  EXPECT_EQ(together.Read(), alone.Read());
}

TEST_P(GpuRowsTest, WhatRoundingLostIsTheRest) {
  const uint32_t rows = 3;
  for (const uint32_t cols : kCols) {
    const std::vector<float> x = RandomFloats(random_, rows * cols, 3.0f);
    const std::vector<float> weight = RandomFloats(random_, cols);
    const OnDevice<float> hidden(x);
    const OnDevice<float> factors(weight);
    const OnDevice<uint16_t> rounded(Stored(rows * cols));
    const OnDevice<uint16_t> loss(Stored(rows * cols, 0x7fff));
    const Tensor in = Dense(hidden.data(), DataType::kFloat32, rows, cols);
    const Tensor out = Dense(rounded.data(), type(), rows, cols);
    ASSERT_TRUE(AddRmsNorm(nullptr, in, {}, factors.data(), 1e-5f, out).ok());
    ASSERT_TRUE(RoundingLoss(nullptr, in, factors.data(), 1e-5f, out,
                             Dense(loss.data(), type(), rows, cols))
                    .ok());
    const Stored kept = rounded.Read();
    const Stored lost = loss.Read();
    for (uint32_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (uint32_t i = 0; i < cols; ++i) squares += double{x[row * cols + i]} * x[row * cols + i];
      const double scale = 1 / std::sqrt(squares / cols + 1e-5);
      for (uint32_t i = 0; i < cols; ++i) {
        const size_t at = row * cols + i;
        const double want = x[at] * scale * weight[i];
        ASSERT_NEAR(Value(type(), kept[at]) + Value(type(), lost[at]), want,
                    std::fabs(want) * Precision(type()) * Precision(type()) + 1e-6)
            << "element " << i << " of " << cols;
      }
    }
  }
}

// The same bits as on the CPU, and nothing between rows.
TEST_P(GpuRowsTest, ABiasIsAddedToEachRow) {
  const uint32_t rows = 5;
  for (const uint32_t cols : kCols) {
    const uint32_t stride = cols + (cols % 4 == 0 ? 8 : 3);
    std::vector<float> want = RandomFloats(random_, rows * stride, 3.0f);
    const std::vector<float> bias = RandomFloats(random_, cols);
    const OnDevice<float> values(want);
    const OnDevice<float> more(bias);
    const absl::Status status =
        AddBias(nullptr, {values.data(), DataType::kFloat32, rows, cols, stride}, more.data());
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < rows * cols; ++i) want[i / cols * stride + i % cols] += bias[i % cols];
    ASSERT_EQ(values.Read(), want) << "rows of " << cols;
  }
}

// Values, and what is between rows, stay.
TEST_P(GpuRowsTest, HeadsOfQueriesAndKeysAreNormalised) {
  const uint32_t rows = 3;
  const float eps = 1e-5f;
  for (const uint32_t head_dim : {2u, 7u, 64u, 80u, 128u, 256u}) {
    const AttentionShape shape{7, 3, head_dim};
    const uint32_t cols = (shape.heads + 2 * shape.kv_heads) * head_dim;
    const uint32_t stride = cols + (head_dim % 4 == 0 ? 8 : 3);
    std::vector<float> x = RandomFloats(random_, rows * stride, 3.0f);
    std::fill_n(x.begin(), head_dim, 0.0f);
    const std::vector<float> query = RandomFloats(random_, head_dim);
    const std::vector<float> key = RandomFloats(random_, head_dim);
    const OnDevice<float> values(x);
    const OnDevice<float> of_query(query);
    const OnDevice<float> of_key(key);
    const absl::Status status =
        NormHeads(nullptr, {values.data(), DataType::kFloat32, rows, cols, stride}, shape,
                  {of_query.data(), of_key.data(), eps});
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> got = values.Read();
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
        float* at = x.data() + row * stride + head * head_dim;
        double squares = 0;
        for (uint32_t i = 0; i < head_dim; ++i) squares += double{at[i]} * at[i];
        const double scale = 1 / std::sqrt(squares / head_dim + eps);
        const std::vector<float>& weight = head < shape.heads ? query : key;
        for (uint32_t i = 0; i < head_dim; ++i) {
          at[i] = static_cast<float>(at[i] * scale * weight[i]);
        }
      }
    }
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], x[i], std::fabs(x[i]) * 1e-5) << i << " with heads of " << head_dim;
    }
  }
}

// Keys and values, and what is between rows, stay.
TEST_P(GpuRowsTest, QueriesAreScaledByTheirPosition) {
  const QueryScale scale = {0.25f, 100};
  const std::vector<uint32_t> positions = {0, 99, 100, 1234, 1u << 20};
  std::vector<AppendSlot> slots;
  for (const uint32_t position : positions) slots.push_back({.position = position});
  const auto rows = static_cast<uint32_t>(slots.size());
  for (const uint32_t head_dim : {7u, 64u}) {
    const AttentionShape shape{5, 2, head_dim};
    const uint32_t queries = shape.heads * head_dim;
    const uint32_t cols = queries + 2 * shape.kv_heads * head_dim;
    const uint32_t stride = cols + (head_dim % 4 == 0 ? 8 : 3);
    std::vector<float> x = RandomFloats(random_, rows * stride);
    const OnDevice<float> values(x);
    const OnDevice<AppendSlot> device_slots(slots);
    const absl::Status status =
        ScaleQueries(nullptr, {values.data(), DataType::kFloat32, rows, cols, stride}, shape, scale,
                     device_slots.array());
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> got = values.Read();
    for (size_t i = 0; i < got.size(); ++i) {
      const bool query = i % stride < queries;
      const double factor =
          query ? 1 + 0.25 * std::log(1.0 + positions[i / stride] / scale.original_context) : 1;
      ASSERT_NEAR(got[i], x[i] * factor, std::fabs(x[i]) * 1e-6) << i;
    }
  }
}

TEST_P(GpuRowsTest, NoRowsAreNoWork) {
  EXPECT_TRUE(AddBias(nullptr, Dense(nullptr, DataType::kFloat32, 0, 8), nullptr).ok());
  const auto silu = Activation::kSilu;
  EXPECT_TRUE(Glu(nullptr, silu, Dense(nullptr, type(), 0, 8), Dense(nullptr, type(), 0, 4)).ok());
  EXPECT_TRUE(AddRmsNorm(nullptr, Dense(nullptr, DataType::kFloat32, 0, 8), {}, nullptr, 1e-5f,
                         Dense(nullptr, type(), 0, 8))
                  .ok());
}

TEST_P(GpuRowsTest, WhatIsNotServedIsSaid) {
  const OnDevice<float> some(std::vector<float>(64));
  const Tensor floats = Dense(some.data(), DataType::kFloat32, 1, 8);
  EXPECT_EQ(Glu(nullptr, Activation::kSilu, floats, floats).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AddBias(nullptr, Dense(some.data(), type(), 1, 8), some.data()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(NormHeads(nullptr, floats, {1, 1, 2}, {some.data(), some.data(), 1}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RoundingLoss(nullptr, floats, some.data(), 1, Dense(some.data(), type(), 1, 4),
                         Dense(some.data(), type(), 1, 8))
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Glu(nullptr, Activation::kSilu, Dense(some.data(), DataType::kFloat32, 1, 16), floats).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      AddRmsNorm(nullptr, Dense(some.data(), type(), 1, 8), {}, some.data(), 1, floats).code(),
      absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuRowsTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
