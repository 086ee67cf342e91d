#include "services/policy/budget.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Values(const std::vector<TokenCount>& budgets) {
  std::vector<uint32_t> values;
  values.reserve(budgets.size());
  for (const TokenCount budget : budgets) values.push_back(budget.value());
  return values;
}

TEST(Pyramid, FallsEvenlyAndKeepsTheSum) {
  EXPECT_THAT(Values(Pyramid(TokenCount(64), TokenCount(16), 5, 16)),
              ElementsAre(96, 80, 64, 48, 32));
  EXPECT_THAT(Values(Pyramid(TokenCount(64), TokenCount(16), 1, 16)), ElementsAre(64));
  for (const uint32_t layers : {2U, 3U, 7U, 30U, 31U}) {
    for (const uint32_t pages : {4U, 5U, 16U, 63U}) {
      const auto budgets = Values(Pyramid(TokenCount(pages * 16), TokenCount(16), layers, 16));
      EXPECT_EQ(std::accumulate(budgets.begin(), budgets.end(), 0U), layers * pages * 16);
      EXPECT_EQ(budgets.size(), layers);
      for (const uint32_t budget : budgets) EXPECT_EQ(budget % 16, 0U);
      EXPECT_GE(budgets.front(), budgets.back());
    }
  }
}

TEST(Pyramid, NoLayerGetsLessThanItMust) {
  const auto budgets = Values(Pyramid(TokenCount(64), TokenCount(48), 5, 16));
  EXPECT_THAT(budgets, ElementsAre(96, 80, 64, 48, 48));
}

TEST(MinBudget, HoldsWhatIsProtectedAndRepresented) {
  CacheConfig config;
  config.policy = ChosenPolicy(StreamingLlmSpec{});
  EXPECT_EQ(MinBudget(config, 16), TokenCount(16));
  config.sink = TokenCount(16);
  config.recent = TokenCount(32);
  EXPECT_EQ(MinBudget(config, 16), TokenCount(48));
  config.policy = ChosenPolicy(SnapKvSpec{33});
  EXPECT_EQ(MinBudget(config, 16), TokenCount(64));  // 49, in whole pages
  config.policy = ChosenPolicy(KvCrushSpec{.options = {.share = 0.5F}});
  EXPECT_EQ(MinBudget(config, 16), TokenCount(96));
  // The first multiple of 16 that holds is the least.
  for (const float share : {0.1F, 0.25F, 0.6F, 0.9F}) {
    config.policy = ChosenPolicy(KvCrushSpec{.options = {.share = share}});
    config.budget = MinBudget(config, 16);
    EXPECT_TRUE(Validate(config, 16, 1).ok()) << share;
    config.budget = config.budget - TokenCount(16);
    EXPECT_FALSE(Validate(config, 16, 1).ok()) << share;
  }
}

}  // namespace
}  // namespace folio::policy
