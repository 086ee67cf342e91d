// Rope-append-score against the plain family: the same bits in the pages, and the same scores.
#include "kernels/cuda/ops/ops.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kRows = 21;
constexpr uint32_t kManyRows = 1030;  // of which each has one block for its query heads

struct Shape {
  uint32_t heads, kv_heads, head_dim, page_tokens = 16, rows = kRows;
};
constexpr Shape kShapes[] = {{9, 3, 64},
                             {4, 4, 128},
                             {7, 1, 80},
                             {2, 2, 16},
                             {8, 2, 96},
                             {5, 1, 128},
                             {6, 1, 64},
                             {64, 8, 64},
                             {3, 1, 64, 8},
                             {8, 8, 128, 32},
                             {19, 1, 64, 16, kManyRows}};
constexpr ScoreKind kKinds[] = {ScoreKind::kNormRatio, ScoreKind::kInverseKeyNorm, ScoreKind::kNone,
                                ScoreKind::kKeyDifference};
constexpr uint32_t kPositions = 100;

// One batch: rows of qkv, with zero keys and zero values among them, and where they go.
struct Batch {
  Batch(Random& random, const Shape& s)
      : shape{s.heads, s.kv_heads, s.head_dim},
        cols((s.heads + 2 * s.kv_heads) * s.head_dim),
        pool(random, 2 * (s.rows / s.page_tokens + 1) + 8, s.kv_heads, s.head_dim, s.page_tokens),
        qkv(RandomFloats(random, size_t{s.rows} * cols)) {
    // Zero keys, then zero keys and values, of either kind: rows 1 and 2, 7 and 8.
    for (const uint32_t row : {1u, 2u, 7u, 8u}) {
      std::fill_n(&qkv[row * cols + s.heads * s.head_dim], (2 - row % 2) * s.kv_heads * s.head_dim,
                  0.0f);
    }
    for (size_t i = 0; i < size_t{kPositions} * s.head_dim / 2; ++i) {
      cos.push_back(std::cos(0.1f * static_cast<float>(i)));
      sin.push_back(std::sin(0.1f * static_cast<float>(i)));
    }
    for (uint32_t r = 0; r < s.rows; ++r) {
      slots.push_back({r / s.page_tokens * 2, r % s.page_tokens,
                       static_cast<uint32_t>(random() % kPositions), kKinds[(r + 1) / 2 % 4]});
    }
  }

  AttentionShape shape;
  uint32_t cols;
  RandomPool pool;
  std::vector<float> qkv, cos, sin;
  std::vector<AppendSlot> slots;
};

class GpuRopeTest : public StoredTest {
 protected:
  struct Result {
    Stored q, pages;
    std::vector<float> scores;
  };
  // `in` is qkv as the device has it.
  Result Run(const Batch& batch, DataType in_type, const void* in) {
    PoolOnDevice pool(type(), batch.pool);
    const OnDevice<float> cos(batch.cos);
    const OnDevice<float> sin(batch.sin);
    const OnDevice<AppendSlot> slots(batch.slots);
    const uint32_t rows = batch.slots.size();
    const uint32_t q_cols = batch.shape.heads * batch.shape.head_dim;
    const OnDevice<uint16_t> q(Stored(size_t{rows} * q_cols, 0x7fff));
    const absl::Status status =
        RopeAppendScore(nullptr, {in, in_type, rows, batch.cols, batch.cols}, batch.shape,
                        {cos.data(), sin.data(), kPositions}, slots.array(), pool.pool(),
                        Dense(q.data(), type(), rows, q_cols));
    EXPECT_TRUE(status.ok()) << status;
    return {q.Read(), pool.Numbers(), pool.Scores()};
  }

  std::unique_ptr<cpu::CpuOps> plain_ = cpu::MakePlainOps();
  ThreadPool threads_{1};
};

TEST_P(GpuRopeTest, EqualsPlain) {
  for (const Shape& s : kShapes) {
    for (const bool wide : {true, false}) {
      SCOPED_TRACE(testing::Message() << s.heads << "/" << s.kv_heads << " x " << s.head_dim);
      Batch batch(random_, s);
      const Stored rounded = RoundAll(type(), batch.qkv);
      for (size_t i = 0; i < rounded.size() && !wide; ++i) batch.qkv[i] = Value(type(), rounded[i]);
      const OnDevice<float> full(batch.qkv);
      const OnDevice<uint16_t> half(rounded);
      const Result got =
          wide ? Run(batch, DataType::kFloat32, full.data()) : Run(batch, type(), half.data());
      RandomPool want = batch.pool;
      cpu::ActivationBuffer q(*plain_, s.rows, s.heads * s.head_dim);
      plain_->RopeAppendScore(threads_, cpu::AsMatrix<const float>(batch.qkv, s.rows, batch.cols),
                              batch.shape, {batch.cos.data(), batch.sin.data(), kPositions},
                              batch.slots, want.view(), q.view());
      for (size_t i = 0; i < got.q.size(); ++i) ASSERT_EQ(got.q[i], Round(type(), q.at(i))) << i;
      // The plain family stores bf16; in the other type numbers are as close as bf16 goes.
      for (size_t i = 0; i < got.pages.size(); ++i) {
        const float number = want.values[i].ToFloat();
        ASSERT_NEAR(Value(type(), got.pages[i]), number,
                    type() == DataType::kBf16 ? 0 : std::fabs(number) / 250 + 1e-7)
            << i;
      }
      for (size_t i = 0; i < got.scores.size(); ++i) {
        const float share = type() == DataType::kBf16 ? 1e-6f : 2e-3f;
        ASSERT_NEAR(got.scores[i], want.scores[i], std::fabs(want.scores[i]) * share) << i;
      }
    }
  }
}

// From what is stored, in its own type. Rows take turns.
TEST_P(GpuRopeTest, ScoresAreOfTheValuesAsStored) {
  Batch batch(random_, kShapes[0]);
  for (uint32_t r = 0; r < kRows; ++r) {
    batch.slots[r].score = r % 3 == 0 ? ScoreKind::kValueNorm : ScoreKind::kNormRatio;
  }
  const OnDevice<float> in(batch.qkv);
  const Result got = Run(batch, DataType::kFloat32, in.data());
  const uint32_t dim = batch.shape.head_dim;
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t head = 0; head < batch.shape.kv_heads; ++head) {
      const AppendSlot& slot = batch.slots[r];
      const size_t heads = batch.shape.kv_heads;
      const size_t key = ((slot.page * 2 * heads + head) * 16 + slot.offset) * dim;
      double k = 0;
      double v = 0;
      for (uint32_t i = 0; i < dim; ++i) {
        k += std::pow(Value(type(), got.pages[key + i]), 2);
        v += std::pow(Value(type(), got.pages[key + heads * 16 * dim + i]), 2);
      }
      const float score = got.scores[(slot.page * 16 + slot.offset) * heads + head];
      const bool ratio = slot.score == ScoreKind::kNormRatio;
      const double want = !ratio  ? std::sqrt(v)
                          : k > 0 ? std::sqrt(v / k)
                          : v > 0 ? std::numeric_limits<float>::max()
                                  : 0;
      ASSERT_NEAR(score, want, want * 1e-6) << r;
    }
  }
}

// Padding of a captured batch leaves pages, scores and the other rows as they are.
TEST_P(GpuRopeTest, PaddingGoesNowhere) {
  Batch batch(random_, kShapes[0]);
  const OnDevice<float> in(batch.qkv);
  const Result whole = Run(batch, DataType::kFloat32, in.data());
  for (uint32_t r = 0; r < kRows; r += 2) batch.slots[r] = {kNoPage, 9999, 0xffffff, kKinds[0]};
  const Result half = Run(batch, DataType::kFloat32, in.data());
  const size_t q_cols = half.q.size() / kRows;
  for (size_t i = 0; i < half.q.size(); ++i) {
    ASSERT_EQ(half.q[i], i / q_cols % 2 == 0 ? 0 : whole.q[i]) << i;
  }
  const Stored before = Restored(type(), batch.pool.values);
  const uint32_t dim = batch.shape.head_dim;
  for (size_t i = 0; i < half.pages.size(); ++i) {
    const uint32_t token = i / dim % 16;
    const uint32_t row = i / dim / 16 / (2 * batch.shape.kv_heads) / 2 * 16 + token;
    const bool other = i / dim / 16 / (2 * batch.shape.kv_heads) % 2 == 1 || row >= kRows;
    ASSERT_EQ(half.pages[i], other || row % 2 == 0 ? before[i] : whole.pages[i]) << i;
  }
}

TEST_P(GpuRopeTest, NobodyReadsScores) {
  Batch batch(random_, kShapes[0]);
  const OnDevice<float> in(batch.qkv);
  PoolOnDevice pool(type(), batch.pool);
  DevicePool unread = pool.pool();
  unread.view.scores = nullptr;
  const OnDevice<float> cos(batch.cos);
  const OnDevice<AppendSlot> slots(batch.slots);
  const OnDevice<uint16_t> q(Stored(kRows * 9 * 64));
  ASSERT_TRUE(RopeAppendScore(nullptr, Dense(in.data(), DataType::kFloat32, kRows, batch.cols),
                              batch.shape, {cos.data(), cos.data(), kPositions}, slots.array(),
                              unread, Dense(q.data(), type(), kRows, 9 * 64))
                  .ok());
  EXPECT_EQ(pool.Scores(), batch.pool.scores);
  EXPECT_NE(pool.Numbers(), Restored(type(), batch.pool.values));
}

INSTANTIATE_TEST_SUITE_P(Types, GpuRopeTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
