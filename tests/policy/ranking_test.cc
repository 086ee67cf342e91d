#include "services/policy/ranking.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(TokenScore, IsTheMeanOverHeads) {
  EXPECT_EQ(TokenScore({3.0F}), 3.0F);
  EXPECT_EQ(TokenScore({1.0F, 2.0F, 6.0F}), 3.0F);
  EXPECT_EQ(TokenScore({0.1F, 0.2F, 0.4F}), (0.1F + 0.2F + 0.4F) / 3.0F);
}

TEST(TokenScore, LargeValuesDoNotOverflow) {
  EXPECT_EQ(TokenScore({FLT_MAX, FLT_MAX, FLT_MAX}), FLT_MAX);
  EXPECT_EQ(TokenScore({-FLT_MAX, -FLT_MAX}), -FLT_MAX);
  EXPECT_EQ(TokenScore({FLT_MAX, FLT_MAX, -FLT_MAX, -FLT_MAX}), 0.0F);
}

TEST(TokenScore, OrdersWhatIsNoNumber) {
  EXPECT_EQ(TokenScore({1.0F, kNan}), -kInf);
  EXPECT_EQ(TokenScore({kInf, -kInf}), -kInf);
  EXPECT_EQ(TokenScore({-kInf, 1.0F}), -kInf);
  EXPECT_EQ(TokenScore({kInf, 1.0F}), kInf);
  EXPECT_EQ(TokenScore({kNan, kInf}), -kInf);
}

TEST(KeepHighest, KeepsEndsAndTheBestBetween) {
  const std::vector<float> scores = {0, 0, 5, 1, 9, 2, 0, 0};
  EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(6, 2, 2))), ElementsAre(0, 1, 2, 4, 6, 7));
  EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(2, 0, 0))), ElementsAre(2, 4));
  EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(4, 2, 2))), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(8, 2, 2))),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(8, 0, 8))),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// The search in a long list begins at a sample of it, which may be far from what it stands for.
TEST(KeepHighest, LongListsAreRankedWhateverTheirOrder) {
  constexpr uint32_t kTokens = 5000;
  std::minstd_rand random(5);
  std::vector<std::vector<float>> lists(5, std::vector<float>(kTokens));
  for (uint32_t i = 0; i < kTokens; ++i) {
    lists[0][i] = static_cast<float>(random() % 100000);
    lists[1][i] = static_cast<float>(i);
    lists[2][i] = i % 39 == 0 ? 1e6F : static_cast<float>(random() % 50);  // the sample's stride
    lists[3][i] = static_cast<float>(random() % 3);
    lists[4][i] = i % 2 == 0 ? kInf : -kInf;
  }
  for (const std::vector<float>& scores : lists) {
    for (const uint32_t kept : {1U, 128U, 2500U, 4999U, 5000U}) {
      std::vector<uint32_t> order(kTokens);
      std::iota(order.begin(), order.end(), 0U);
      std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return scores[a] != scores[b] ? scores[a] > scores[b] : a > b;
      });
      order.resize(kept);
      std::sort(order.begin(), order.end());
      ASSERT_EQ(Values(KeepHighest(scores, MakeLimits(kept, 0, 0))), order)
          << &scores - lists.data() << " " << kept;
    }
  }
}

TEST(KeepHighest, TiesGoToTheNewer) {
  const std::vector<float> scores(10, 1.0F);
  EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(4, 2, 0))), ElementsAre(0, 1, 8, 9));
  EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(6, 2, 2))), ElementsAre(0, 1, 6, 7, 8, 9));
  const std::vector<float> lowest(6, -kInf);
  EXPECT_THAT(Values(KeepHighest(lowest, MakeLimits(2, 0, 0))), ElementsAre(4, 5));
}

TEST(KeepHighest, AgreesWithAFullSort) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const uint32_t tokens = 40 + random() % 200;
    const uint32_t budget = 16 + random() % 24;
    const uint32_t sink = random() % 8;
    const uint32_t recent = random() % 8;
    std::vector<float> scores(tokens);
    for (float& score : scores) score = static_cast<float>(random() % 6);

    std::vector<std::pair<float, uint32_t>> middle;
    for (uint32_t i = sink; i < tokens - recent; ++i) middle.emplace_back(scores[i], i);
    std::sort(middle.rbegin(), middle.rend());
    std::set<uint32_t> expected;
    for (uint32_t i = 0; i < sink; ++i) expected.insert(i);
    for (uint32_t i = tokens - recent; i < tokens; ++i) expected.insert(i);
    for (uint32_t i = 0; i < budget - sink - recent; ++i) expected.insert(middle[i].second);

    EXPECT_THAT(Values(KeepHighest(scores, MakeLimits(budget, sink, recent))),
                ::testing::ElementsAreArray(expected))
        << "round " << round;
  }
}

// Blocks of two tokens.
uint32_t Lowest(const std::vector<float>& scores, uint32_t sink, uint32_t recent) {
  const std::vector<float> blocks = BlockMeans(scores, 2);
  const auto count = static_cast<uint32_t>(blocks.size());
  return LowestBlock(blocks, Candidates(count, 2, MakeLimits(2, sink, recent))).value();
}

TEST(LowestBlock, ComparesMeansOfCandidates) {
  EXPECT_EQ(Lowest({0, 0, 5, 1, 1, 2, 4, 4, 0, 0}, 2, 2), 2U);
  EXPECT_EQ(Lowest({0, 0, 5, 1, 1, 2, 4, 4, 0, 0}, 0, 2), 0U);
  EXPECT_EQ(Lowest({1, 1, 5, 1, 1, 2, 4, 4, 0, 0}, 2, 0), 4U);
  EXPECT_EQ(Lowest({0, 0, 9, 9, 0, 0}, 2, 2), 1U);
}

TEST(LowestBlock, TiesGoToTheOlder) {
  EXPECT_EQ(Lowest({9, 9, 1, 3, 3, 1, 2, 2, 9, 9}, 2, 2), 1U);
  EXPECT_EQ(Lowest({9, 9, 4, 4, 3, 1, 2, 2, 9, 9}, 2, 2), 2U);
}

TEST(LowestBlock, SurvivesAnyFloat) {
  EXPECT_EQ(Lowest({0, 0, FLT_MAX, FLT_MAX, FLT_MAX, 1, 0, 0}, 2, 2), 2U);
  EXPECT_EQ(Lowest({0, 0, 1, 1, kNan, 9, 0, 0}, 2, 2), 2U);
  EXPECT_EQ(Lowest({0, 0, kInf, kInf, kInf, kInf, 0, 0}, 2, 2), 1U);
  EXPECT_EQ(Lowest({0, 0, 1, 1, kInf, kNan, 0, 0}, 2, 2), 2U);
  EXPECT_EQ(Lowest({0, 0, kNan, 1, kNan, kNan, 0, 0}, 2, 2), 1U);
  EXPECT_EQ(Lowest({0, 0, kInf, 1, -FLT_MAX, -FLT_MAX, 0, 0}, 2, 2), 2U);
}

TEST(LowestBlock, IgnoresTheUnfinishedBlock) {
  EXPECT_EQ(Lowest({9, 9, 3, 3, 5, 5, 6, 6, 0}, 2, 2), 1U);
}

}  // namespace
}  // namespace folio::policy
