// Embedding, normalisation and rope-append-score of every fast family against the plain one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/kernel_data.h"

namespace folio::kernels::cpu {
namespace {

constexpr uint32_t kSeed = 23;

class RowsTest : public testing::TestWithParam<std::string> {
 protected:
  RowsTest() : fast_(MakeFastOps(GetParam()).value()), plain_(MakePlainOps()) {}
  std::unique_ptr<CpuOps> fast_, plain_;
  Random random_{kSeed};
};

TEST_P(RowsTest, EmbedIsExact) {
  for (uint32_t hidden : {1u, 15u, 576u, 100u}) {
    auto table = RandomBf16(random_, 50 * hidden);
    std::vector<uint32_t> ids(40);
    for (uint32_t& id : ids) id = random_() % 50;
    std::vector<float> out(ids.size() * hidden);
    ThreadPool pool(2);
    fast_->Embed(pool, AsMatrix<const bf16>(table, 50, hidden), ids,
                 AsMatrix<float>(out, ids.size(), hidden));
    for (size_t r = 0; r < ids.size(); ++r) {
      for (uint32_t c = 0; c < hidden; ++c) {
        ASSERT_EQ(out[r * hidden + c], table[ids[r] * hidden + c].ToFloat());
      }
    }
  }
}

TEST_P(RowsTest, RmsNormEqualsPlainAndIgnoresCompany) {
  for (uint32_t hidden : {1u, 7u, 64u, 576u, 333u}) {
    const uint32_t rows = 37;
    auto x = RandomFloats(random_, rows * hidden, 3.0f);
    std::fill_n(x.begin(), hidden, 0.0f);
    const auto weight = RandomFloats(random_, hidden);
    ThreadPool pool(2);
    ActivationBuffer got(*fast_, rows, hidden);
    ActivationBuffer want(*plain_, rows, hidden);
    fast_->RmsNorm(pool, AsMatrix<const float>(x, rows, hidden), weight, 1e-5f, got.view());
    plain_->RmsNorm(pool, AsMatrix<const float>(x, rows, hidden), weight, 1e-5f, want.view());
    for (size_t i = 0; i < size_t{rows} * hidden; ++i) {
      ASSERT_NEAR(got.at(i), want.at(i), std::fabs(want.at(i)) / 250) << i;
    }
    for (uint32_t r = 0; r < rows; ++r) {
      ActivationBuffer one(*fast_, 1, hidden);
      fast_->RmsNorm(pool, {&x[r * hidden], 1, hidden, hidden}, weight, 1e-5f, one.view());
      ASSERT_EQ(one.row_bytes(0), got.row_bytes(r));
    }
  }
}

struct Shape {
  uint32_t heads, kv_heads, head_dim;
};

// From what is stored; -1 where nobody scores.
double NaiveAppendScore(const AppendSlot& slot, uint32_t head, const PoolView& pages) {
  if (slot.score == ScoreKind::kNone || slot.score == ScoreKind::kKeyDifference) return -1;
  const uint32_t dim = pages.geometry.head_dim;
  const size_t at = (size_t{head} * pages.geometry.page_tokens + slot.offset) * dim;
  double k = 0;
  double v = 0;
  for (uint32_t i = 0; i < dim; ++i) {
    k += std::pow(pages.keys(slot.page)[at + i].ToFloat(), 2);
    v += std::pow(pages.values(slot.page)[at + i].ToFloat(), 2);
  }
  if (slot.score == ScoreKind::kValueNorm) return std::sqrt(v);
  const double of = slot.score == ScoreKind::kInverseKeyNorm ? 1 : std::sqrt(v);
  if (k == 0) return of == 0 ? 0 : std::numeric_limits<float>::max();
  return of / std::sqrt(k);
}

constexpr ScoreKind kKinds[] = {ScoreKind::kNormRatio, ScoreKind::kInverseKeyNorm, ScoreKind::kNone,
                                ScoreKind::kKeyDifference, ScoreKind::kValueNorm};

TEST_P(RowsTest, RopeAppendScoreEqualsPlain) {
  for (const Shape& s : {Shape{9, 3, 64}, {4, 4, 128}, {7, 1, 80}, {2, 2, 16}, {8, 2, 96}}) {
    SCOPED_TRACE(testing::Message() << "head_dim " << s.head_dim);
    const AttentionShape shape{s.heads, s.kv_heads, s.head_dim};
    const uint32_t rows = 45;
    const uint32_t cols = (s.heads + 2 * s.kv_heads) * s.head_dim;
    auto qkv = RandomFloats(random_, rows * cols);
    // Zero keys, then zero keys and values, of each kind: rows 1 and 2, 7 and 8, 9 and 10.
    for (const uint32_t row : {1u, 2u, 7u, 8u, 9u, 10u}) {
      std::fill_n(&qkv[row * cols + s.heads * s.head_dim], (2 - row % 2) * s.kv_heads * s.head_dim,
                  0.0f);
    }
    const uint32_t positions = 100;
    std::vector<float> cos(positions * s.head_dim / 2);
    std::vector<float> sin(cos.size());
    for (size_t i = 0; i < cos.size(); ++i) {
      cos[i] = std::cos(0.1f * static_cast<float>(i));
      sin[i] = std::sin(0.1f * static_cast<float>(i));
    }
    const RopeTable rope{cos.data(), sin.data(), positions};
    RandomPool got(random_, 6, s.kv_heads, s.head_dim);
    RandomPool want = got;
    std::vector<AppendSlot> slots(rows);
    for (uint32_t r = 0; r < rows; ++r) {
      slots[r] = {(r / 16) * 2, r % 16, static_cast<uint32_t>(random_() % positions),
                  kKinds[(r + 1) / 2 % std::size(kKinds)]};
    }
    ThreadPool pool(2);
    ActivationBuffer got_q(*fast_, rows, s.heads * s.head_dim);
    ActivationBuffer want_q(*plain_, rows, s.heads * s.head_dim);
    fast_->RopeAppendScore(pool, AsMatrix<const float>(qkv, rows, cols), shape, rope, slots,
                           got.view(), got_q.view());
    plain_->RopeAppendScore(pool, AsMatrix<const float>(qkv, rows, cols), shape, rope, slots,
                            want.view(), want_q.view());
    for (size_t i = 0; i < got.values.size(); ++i) {
      ASSERT_EQ(got.values[i].bits, want.values[i].bits) << i;
    }
    for (size_t i = 0; i < got.scores.size(); ++i) {
      ASSERT_FLOAT_EQ(got.scores[i], want.scores[i]) << i;
    }
    for (uint32_t i = 0; i < rows * s.kv_heads; ++i) {
      const AppendSlot& slot = slots[i / s.kv_heads];
      const double naive = NaiveAppendScore(slot, i % s.kv_heads, want.view());
      const size_t at = slot.offset * s.kv_heads + i % s.kv_heads;
      ASSERT_NEAR(want.view().page_scores(slot.page)[at], naive, 1e-6 * std::fabs(naive)) << i;
    }
    for (size_t i = 0; i < size_t{rows} * s.heads * s.head_dim; ++i) {
      ASSERT_EQ(got_q.at(i), bf16::Round(want_q.at(i)).ToFloat()) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RowsTest, testing::ValuesIn(FastFamilies()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::kernels::cpu
