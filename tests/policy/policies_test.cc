#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/registry.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;

// Ten tokens of two heads, pages of two.
std::vector<std::vector<float>> Rows() {
  return {{0, 0}, {0, 0}, {5, 1}, {1, 1}, {8, 8}, {1, 9}, {2, 2}, {3, 1}, {0, 0}, {0, 0}};
}

TEST(Full, KeepsEverything) {
  const auto policy = MakePolicy(FullSpec());
  EXPECT_EQ(policy->traits().name, "full");
  EXPECT_FALSE(policy->traits().evicts);
  EXPECT_FALSE(policy->traits().needs_scores());
  const ScoreTable table(OneHead({3, 1, 2}), 2);
  EXPECT_THAT(Values(policy->SelectPrefill(table.view(), MakeLimits(0, 0, 0))),
              ElementsAre(0, 1, 2));
  EXPECT_DEATH(policy->SelectDecode(table.view(), MakeLimits(0, 0, 0)), "check failed");
}

TEST(PagedEviction, KeepsTheHighestMeansOfHeads) {
  const auto policy = MakePolicy(PagedEvictionSpec());
  EXPECT_EQ(policy->traits().name, "paged_eviction");
  EXPECT_TRUE(policy->traits().evicts);
  EXPECT_TRUE(policy->traits().needs_scores());
  const ScoreTable table(Rows(), 2);
  // Means of the middle: 3, 1, 8, 5, 2, 2.
  EXPECT_THAT(Values(policy->SelectPrefill(table.view(), MakeLimits(6, 2, 2))),
              ElementsAre(0, 1, 4, 5, 8, 9));
  EXPECT_THAT(Values(policy->SelectPrefill(table.view(), MakeLimits(8, 2, 2))),
              ElementsAre(0, 1, 2, 4, 5, 7, 8, 9));
}

TEST(PagedEviction, KeepsAPromptThatIsNoMultipleOfThePage) {
  const auto policy = MakePolicy(PagedEvictionSpec());
  const ScoreTable table(OneHead({0, 0, 5, 1, 9, 2, 1}), 2);
  EXPECT_THAT(Values(policy->SelectPrefill(table.view(), MakeLimits(6, 2, 2))),
              ElementsAre(0, 1, 2, 4, 5, 6));
}

TEST(PagedEviction, DropsTheLowestPageMean) {
  const auto policy = MakePolicy(PagedEvictionSpec());
  const ScoreTable table(Rows(), 2);
  // Means of blocks 1 to 3: 2, 6.5, 2. The older of the equal ones goes.
  EXPECT_EQ(policy->SelectDecode(table.view(), MakeLimits(8, 2, 2)).value(), 1U);
  EXPECT_EQ(policy->SelectDecode(table.view(), MakeLimits(8, 4, 2)).value(), 3U);
  EXPECT_EQ(policy->SelectDecode(table.view(), MakeLimits(8, 4, 4)).value(), 2U);
}

TEST(StreamingLlm, KeepsSinksAndTheMostRecent) {
  const auto policy = MakePolicy(StreamingLlmSpec());
  EXPECT_EQ(policy->traits().name, "streaming_llm");
  EXPECT_TRUE(policy->traits().evicts);
  EXPECT_FALSE(policy->traits().needs_scores());
  const LayerScores blind{.page_tokens = 2, .tokens = TokenCount(11)};  // it must not read a row
  EXPECT_THAT(Values(policy->SelectPrefill(blind, MakeLimits(6, 2, 2))),
              ElementsAre(0, 1, 7, 8, 9, 10));
  EXPECT_THAT(Values(policy->SelectPrefill(blind, MakeLimits(4, 0, 2))), ElementsAre(7, 8, 9, 10));
}

TEST(StreamingLlm, DropsTheOldestPageThatIsNoSink) {
  const auto policy = MakePolicy(StreamingLlmSpec());
  const LayerScores blind{.page_tokens = 2, .tokens = TokenCount(10)};
  EXPECT_EQ(policy->SelectDecode(blind, MakeLimits(8, 2, 2)).value(), 1U);
  EXPECT_EQ(policy->SelectDecode(blind, MakeLimits(8, 0, 2)).value(), 0U);
  EXPECT_EQ(policy->SelectDecode(blind, MakeLimits(8, 4, 4)).value(), 2U);
}

TEST(Policies, DieWhenNoCandidateExists) {
  const ScoreTable table(Rows(), 2);
  for (const PolicySpec& spec : {PolicySpec(PagedEvictionSpec()), PolicySpec(StreamingLlmSpec())}) {
    EXPECT_DEATH(MakePolicy(spec)->SelectDecode(table.view(), MakeLimits(10, 6, 4)),
                 "check failed");
  }
}

}  // namespace
}  // namespace folio::policy
