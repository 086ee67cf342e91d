#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/registry.h"
#include "services/policy/score_rows.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::Pointwise;

// Twelve tokens in pages of two. Only slot 5 differs; over five slots that is 10 / 5 each for slots
// 3 to 7. The prompt's end looks at slots 7, 3, 9, and 4, in this order.
const std::vector<float> kDifference = {0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0};
const QueryDiffSpec kTwo{{.neighbours = 2}};
const std::vector<float> kAttention = {99, 99, 1, 8, 6, 0, 0, 9, 0, 7, 50, 99};

class QueryDiffTest : public ::testing::Test {
 protected:
  LayerScores Both() const {
    LayerScores scores = difference_.view();
    scores.prompt_pages = attention_.view().pages;
    return scores;
  }
  static std::vector<uint32_t> Keep(const QueryDiff::Options& options, const LayerScores& scores,
                                    const Limits& limits) {
    return Values(MakePolicy(QueryDiffSpec{options})->SelectPrefill(scores, limits));
  }

  const ScoreTable difference_{OneHead(kDifference), 2};
  const ScoreTable attention_{OneHead(kAttention), 2};
  const Limits limits_ = MakeLimits(8, 2, 2);  // four are free
};

TEST_F(QueryDiffTest, HalfIsWhatTheQueriesSeeAndHalfWhatDiffers) {
  // 7 and 3 are seen most; of 4, 5 and 6, which differ alike, the newer two.
  EXPECT_THAT(Keep({0.5F, 1, 1, 2}, Both(), limits_), ElementsAre(0, 1, 3, 5, 6, 7, 10, 11));
  // The share is rounded down: 0.74 of 4 is 2.
  EXPECT_THAT(Keep({0.74F, 1, 1, 2}, Both(), limits_), ElementsAre(0, 1, 3, 5, 6, 7, 10, 11));
  EXPECT_THAT(Keep({0.75F, 1, 1, 2}, Both(), limits_), ElementsAre(0, 1, 3, 6, 7, 9, 10, 11));
}

TEST_F(QueryDiffTest, EitherMayHaveItAll) {
  EXPECT_THAT(Keep({0, 1, 1, 2}, Both(), limits_), ElementsAre(0, 1, 4, 5, 6, 7, 10, 11));
  EXPECT_THAT(Keep({1, 1, 1, 2}, Both(), limits_), ElementsAre(0, 1, 3, 4, 7, 9, 10, 11));
}

TEST_F(QueryDiffTest, WithoutAShareAQuarterGoesByAttentionAndUnderASmallBudgetMore) {
  constexpr size_t kTokens = 1024;
  std::vector<float> differs(kTokens, 0.0F);
  std::vector<float> seen(kTokens, 0.0F);
  for (size_t i = 0; i < kTokens; ++i) (i < kTokens / 2 ? differs : seen)[i] = 1.0F;
  const ScoreTable difference(OneHead(differs), 16);
  const ScoreTable attention(OneHead(seen), 16);
  LayerScores scores = difference.view();
  scores.prompt_pages = attention.view().pages;
  const std::pair<uint32_t, int> by_attention[] = {{4, 2},    {96, 48},  {128, 64}, {129, 64},
                                                   {259, 64}, {260, 65}, {400, 100}};
  for (const auto& [unprotected, asked] : by_attention) {
    // The last token is the window.
    const std::vector<uint32_t> kept =
        Keep({.window = 1, .pool = 1, .neighbours = 0}, scores, MakeLimits(unprotected + 1, 0, 1));
    EXPECT_EQ(std::ranges::count_if(kept, [](uint32_t slot) { return slot >= kTokens / 2; }),
              asked + 1)
        << unprotected;
  }
}

TEST_F(QueryDiffTest, TheWindowsOwnTokensAreKept) {
  // Slots 8 to 11 look; two are free.
  EXPECT_THAT(Keep({0.5F, 4, 1, 2}, Both(), limits_), ElementsAre(0, 1, 6, 7, 8, 9, 10, 11));
}

TEST_F(QueryDiffTest, WithoutThePromptsScoresAllGoesByDifference) {
  EXPECT_THAT(Keep({0.5F, 1, 1, 2}, difference_.view(), limits_),
              ElementsAre(0, 1, 4, 5, 6, 7, 10, 11));
}

TEST_F(QueryDiffTest, TokensAreSmoothedOverNeighboursAndHeads) {
  const ScoreTable table({{1, 3}, {0, 0}, {4, 4}, {0, 0}, {0, 10}, {0, 0}}, 2);
  // Means over heads: 2, 0, 4, 0, 5, 0.
  EXPECT_THAT(MakePolicy(kTwo)->TokenScores(table.view()),
              Pointwise(FloatEq(), {2.0F, 1.5F, 2.2F, 1.8F, 2.25F, 5.0F / 3}));
}

TEST_F(QueryDiffTest, AnyNumberOfNeighboursMeansOverThoseThatAreThere) {
  const std::vector<float> values = {1, 2, 4, 8, 16, 32};
  const ScoreTable table(OneHead(values), 2);
  const auto means = [&](uint32_t neighbours) {
    return MakePolicy(QueryDiffSpec{{.neighbours = neighbours}})->TokenScores(table.view());
  };
  EXPECT_EQ(means(0), values);
  EXPECT_THAT(means(1),
              Pointwise(FloatEq(), {1.5F, 7.0F / 3, 14.0F / 3, 28.0F / 3, 56.0F / 3, 24.0F}));
  EXPECT_THAT(means(8), Pointwise(FloatEq(), std::vector<float>(6, 10.5F)));
}

TEST_F(QueryDiffTest, JudgesAreAtLeastOneLayer) {
  const auto of = [](Depth depth, uint32_t layers) {
    const LayerRange range = depth.Of(layers);
    return std::pair(range.begin, range.end);
  };
  const Depth judges = MakePolicy(QueryDiffSpec())->traits().judges;
  EXPECT_EQ(of(judges, 30), std::pair(20U, 25U));
  EXPECT_EQ(of(judges, 32), std::pair(21U, 27U));
  EXPECT_EQ(of(judges, 2), std::pair(1U, 2U));
  EXPECT_EQ(of(judges, 1), std::pair(0U, 1U));
  EXPECT_EQ(of({0.99F, 1}, 4), std::pair(3U, 4U));
  EXPECT_EQ(of({}, 30), std::pair(0U, 30U));
}

// NaN and infinity leave the neighbours' means valid.
TEST_F(QueryDiffTest, SmoothingKeepsToNumbers) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const ScoreTable table(OneHead({1, kInf, std::nanf(""), -kInf, 1, 1, 1, 1, 1, 1}), 2);
  const std::vector<float> scores = MakePolicy(kTwo)->TokenScores(table.view());
  for (const float score : scores) EXPECT_FALSE(std::isnan(score));
  EXPECT_EQ(scores[8], 1.0F);
}

// Long lists are smoothed many tokens at a time, with the bits that one at a time has.
TEST_F(QueryDiffTest, LongListsAreSmoothedAlike) {
  constexpr uint32_t kTokens = 1006;
  std::minstd_rand random(11);
  std::uniform_real_distribution<float> number(-1, 1);
  for (const bool finite : {true, false}) {
    std::vector<float> values(kTokens);
    for (float& value : values) value = number(random);
    if (!finite) {
      values[100] = std::nanf("");
      values[500] = -std::numeric_limits<float>::infinity();
      for (uint32_t i = 700; i < 720; ++i) values[i] = 3e38F;
    }
    const ScoreTable table(OneHead(values), 2);
    const std::vector<float> own =
        MakePolicy(QueryDiffSpec{{.neighbours = 0}})->TokenScores(table.view());
    for (const uint32_t near : {1U, 8U, 40U}) {
      const std::vector<float> means =
          MakePolicy(QueryDiffSpec{{.neighbours = near}})->TokenScores(table.view());
      for (uint32_t i = 0; i < kTokens; ++i) {
        const uint32_t first = i - std::min(i, near);
        const uint32_t end = std::min(i + near + 1, kTokens);
        ASSERT_EQ(means[i], TokenScore(absl::MakeConstSpan(own).subspan(first, end - first)))
            << i << " of " << near;
      }
    }
  }
}

// A page that is not full yet has no scores.
TEST_F(QueryDiffTest, TokensWithoutARowAreKept) {
  const float kNan = std::nanf("");
  const ScoreTable table(OneHead({0, 0, 1, 1, 2, 2, kNan}), 2);
  LayerScores scores = table.view();
  scores.scored = TokenCount(6);
  EXPECT_EQ(MakePolicy(kTwo)->TokenScores(scores)[6], std::numeric_limits<float>::infinity());
  EXPECT_THAT(Keep({0.5F, 1, 1, 2}, scores, MakeLimits(4, 2, 0)), ElementsAre(0, 1, 5, 6));
}

TEST_F(QueryDiffTest, DecodeDropsThePageThatDiffersLeast) {
  // Smoothing would make page 2, behind the outstanding slot 3, look better than page 3.
  const ScoreTable table(OneHead({9, 9, 0, 8, 0, 0, 1, 1, 5, 5, 0, 0}), 2);
  const auto policy = MakePolicy(QueryDiffSpec());
  EXPECT_THAT(policy->BlockScores(table.view()),
              Pointwise(FloatEq(), {9.0F, 4.0F, 0.0F, 1.0F, 5.0F, 0.0F}));
  EXPECT_EQ(policy->SelectDecode(table.view(), MakeLimits(10, 2, 2)).value(), 2U);
  EXPECT_EQ(policy->SelectDecode(table.view(), MakeLimits(10, 6, 2)).value(), 3U);
}

}  // namespace
}  // namespace folio::policy
