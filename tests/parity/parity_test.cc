// Folio's kernels and policies against what kvpress computes from the same keys and queries.
#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/ranking_policy.h"
#include "services/policy/registry.h"
#include "tests/kernels/kernel_data.h"
#include "tests/parity/parity_cache.h"
#include "tests/policy/score_table.h"

namespace folio::parity {
namespace {

using kernels::ScoreKind;
using policy::MakeLimits;
using policy::MakePolicy;
using policy::Policy;
using ::testing::FloatNear;

constexpr uint32_t kPageTokens = 16;

// What Random does with the numbers that it draws, done with given ones.
class GivenScores final : public policy::RankingPolicy {
 public:
  GivenScores() : RankingPolicy({.name = "given"}) {}
};

Rows ByToken(const Vectors& v, const std::string& scores) {
  Rows rows(v.tokens, std::vector<float>(v.kv_heads));
  for (uint32_t i = 0; i < v.tokens * v.kv_heads; ++i) {
    rows[i % v.tokens][i / v.tokens] = v.scores.at(scores)[i];
  }
  return rows;
}

Rows Mapped(Rows rows, const std::function<float(float)>& map) {
  for (std::vector<float>& row : rows) {
    for (float& score : row) score = map(score);
  }
  return rows;
}

Rows OneHeadOf(const Rows& rows, uint32_t head) {
  Rows one;
  for (const std::vector<float>& row : rows) one.push_back({row[head]});
  return one;
}

std::vector<uint32_t> Kept(const Policy& policy, const Rows& rows, const policy::Limits& limits) {
  const policy::ScoreTable table(rows, kPageTokens);
  policy::LayerScores view = table.view();
  view.scored = view.tokens;
  return policy::Values(policy.SelectPrefill(view, limits));
}

// Parity mode: Folio's selection as kvpress selects. No token is protected but by the policy's own
// definition, and each KV head is given to the policy as a layer of its own. Then the same with
// scores averaged over the heads. `rows` must have kvpress' scale.
void ExpectKvpressSelection(const Vectors& v, const std::string& press, const Policy& policy,
                            const Rows& rows) {
  uint32_t seen = 0;
  for (const Case& c : v.cases) {
    if (c.press != press) continue;
    SCOPED_TRACE(::testing::Message() << press << ", budget " << c.budget);
    const policy::Limits limits = MakeLimits(c.budget, press == "streaming_llm" ? v.sink : 0, 0);
    for (uint32_t head = 0; head < v.kv_heads; ++head) {
      EXPECT_EQ(Kept(policy, OneHeadOf(rows, head), limits), c.per_head[head]) << "head " << head;
    }
    EXPECT_EQ(Kept(policy, rows, limits), c.head_mean);
    ++seen;
  }
  EXPECT_EQ(seen, 2U);
}

// The product's way: sinks and recent tokens protected, one choice for all heads.
void ExpectFolioSelection(const Vectors& v, const std::string& press, const Policy& policy,
                          const Rows& rows) {
  uint32_t seen = 0;
  for (const Case& c : v.cases) {
    if (c.press != press) continue;
    SCOPED_TRACE(::testing::Message() << press << ", budget " << c.budget);
    EXPECT_EQ(Kept(policy, rows, MakeLimits(c.budget, v.sink, v.recent)), c.folio);
    ++seen;
  }
  EXPECT_EQ(seen, 2U);
}

void ExpectNear(const Rows& rows, const Rows& want, float relative, uint32_t tokens) {
  ASSERT_EQ(rows.size(), want.size());
  for (uint32_t t = 0; t < tokens; ++t) {
    for (size_t head = 0; head < want[t].size(); ++head) {
      const float expected = want[t][head];
      EXPECT_THAT(rows[t][head], FloatNear(expected, relative * std::abs(expected)))
          << "token " << t << ", head " << head;
    }
  }
}

const std::vector<Vectors>& AllVectors() {
  static const auto* const kAll = new std::vector<Vectors>(ReadVectors());
  return *kAll;
}

TEST(ParityVectors, DifferWhereTheDefinitionsDo) {
  ASSERT_EQ(AllVectors().size(), 3U);
  for (const Vectors& v : AllVectors()) {
    SCOPED_TRACE(v.name);
    ASSERT_EQ(v.cases.size(), 10U);
    for (const Case& c : v.cases) {
      SCOPED_TRACE(c.press);
      const bool positions_only = c.press == "streaming_llm";
      EXPECT_EQ(c.per_head[0] == c.per_head[1], positions_only);
      EXPECT_EQ(c.per_head[0] == c.head_mean, positions_only);
      EXPECT_EQ(c.head_mean == c.folio, positions_only);
    }
  }
}

TEST(Parity, SelectionByGivenScoresIsRandomPress) {
  for (const Vectors& v : AllVectors()) {
    SCOPED_TRACE(v.name);
    const Rows given = ByToken(v, "random");
    ExpectKvpressSelection(v, "random", GivenScores(), given);
    ExpectFolioSelection(v, "random", GivenScores(), given);
  }
}

TEST(Parity, StreamingLlmIsStreamingLlmPress) {
  const auto streaming = MakePolicy(policy::StreamingLlmSpec());
  for (const Vectors& v : AllVectors()) {
    SCOPED_TRACE(v.name);
    const Rows unread(v.tokens, std::vector<float>(v.kv_heads, NAN));
    ExpectKvpressSelection(v, "streaming_llm", *streaming, unread);
    ExpectFolioSelection(v, "streaming_llm", *streaming, unread);
  }
}

// One kernel family, on all shapes.
class KernelParity : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ops_ = GetParam() == "plain" ? kernels::cpu::MakePlainOps()
                                 : *kernels::cpu::MakeFastOps(GetParam());
  }
  // How far a family's scores may be from kvpress' own, relative to them.
  static constexpr float kTolerance = 2e-5F;

  std::unique_ptr<kernels::cpu::CpuOps> ops_;
};

TEST_P(KernelParity, InverseKeyNormIsKnormPress) {
  const auto inverse_key_norm = MakePolicy(policy::InverseKeyNormSpec());
  for (const Vectors& v : AllVectors()) {
    SCOPED_TRACE(v.name);
    const Rows board = ParityCache(v, *ops_).Scores(ScoreKind::kInverseKeyNorm);
    // Theirs is -||k||: the same order in a head, another one in the mean over heads.
    const Rows norms = Mapped(board, [](float score) { return -1 / score; });
    ExpectNear(norms, ByToken(v, "knorm"), kTolerance, v.tokens);
    ExpectKvpressSelection(v, "knorm", *inverse_key_norm, norms);
    ExpectFolioSelection(v, "knorm", *inverse_key_norm, board);
  }
}

TEST_P(KernelParity, KeyDiffIsKeyDiffPress) {
  const auto key_diff = MakePolicy(policy::KeyDiffSpec());
  for (const Vectors& v : AllVectors()) {
    SCOPED_TRACE(v.name);
    const Rows board = ParityCache(v, *ops_).Scores(ScoreKind::kKeyDifference);
    const Rows theirs = ByToken(v, "keydiff");
    for (uint32_t t = 0; t < v.tokens; ++t) {  // a cosine's rounding does not shrink with it
      for (uint32_t head = 0; head < v.kv_heads; ++head) {
        EXPECT_NEAR(board[t][head], theirs[t][head], 2e-6F) << "token " << t << ", head " << head;
      }
    }
    ExpectKvpressSelection(v, "keydiff", *key_diff, board);
    ExpectFolioSelection(v, "keydiff", *key_diff, board);
  }
}

TEST_P(KernelParity, SnapKvIsMaxPooledSnapKvPress) {
  for (const Vectors& v : AllVectors()) {
    SCOPED_TRACE(v.name);
    const auto snap_kv = MakePolicy(policy::SnapKvSpec{.window = v.window});
    const Rows board = ParityCache(v, *ops_).Scores(ScoreKind::kWindowAttention);
    ExpectNear(board, ByToken(v, "window_attention"), kTolerance, v.tokens);
    ExpectFolioSelection(v, "snapkv", *snap_kv, board);
  }
}

// Mean over 5 neighbours of what lies before the window; beyond both ends lie zeros.
Rows AveragePooled(const Rows& mass, uint32_t seen) {
  Rows pooled(mass.size(), std::vector<float>(mass[0].size()));
  for (int64_t t = 0; t < seen; ++t) {
    for (int64_t from = std::max<int64_t>(0, t - 2); from <= t + 2 && from < seen; ++from) {
      for (size_t head = 0; head < mass[0].size(); ++head) pooled[t][head] += mass[from][head] / 5;
    }
  }
  return pooled;
}

// SnapKVPress as it is, from the weights of Folio's attention: averages where snap_kv takes maxima.
TEST(Parity, AttentionOfTheWindowIsSnapKvPress) {
  const auto plain = kernels::cpu::MakePlainOps();
  for (const Vectors& v : AllVectors()) {
    SCOPED_TRACE(v.name);
    const auto snap_kv = MakePolicy(policy::SnapKvSpec{.window = v.window});
    const uint32_t seen = v.tokens - v.window;
    const Rows pooled = AveragePooled(ParityCache(v, *plain).AttentionMass(), seen);
    ExpectNear(pooled, ByToken(v, "snapkv"), 2e-5F, seen);
    ExpectKvpressSelection(v, "snapkv", *snap_kv, pooled);
  }
}

std::vector<std::string> Families() {
  std::vector<std::string> names = kernels::cpu::FastFamilies();
  names.insert(names.begin(), "plain");
  return names;
}

INSTANTIATE_TEST_SUITE_P(, KernelParity, ::testing::ValuesIn(Families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::parity
