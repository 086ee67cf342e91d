// Parts of a budget that stay with parts of the text.
#include "services/policy/shares.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/cache_config.h"
#include "services/policy/quotas.h"
#include "services/policy/ranking.h"
#include "services/policy/registry.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kPage = 4;

Limits InCompaction(const Limits& limits, const Shares& shares) {
  return CompactionLimits(limits, shares, kPage);
}
Limits InDecode(const Limits& limits, const Shares& shares, uint32_t prompt) {
  return DecodeLimits(limits, shares, TokenCount(prompt), kPage);
}

TEST(Shares, AreWholePagesAndAtLeastOne) {
  EXPECT_EQ(SharePages(0, TokenCount(1600), 16), 0U);
  EXPECT_EQ(SharePages(0.1F, TokenCount(1600), 16), 10U);
  EXPECT_EQ(SharePages(0.1F, TokenCount(256), 16), 2U);
  EXPECT_EQ(SharePages(0.01F, TokenCount(256), 16), 1U);
}

TEST(Shares, ProtectTheEndsOfAPromptInItsCompaction) {
  const Limits limits = InCompaction(MakeLimits(80, 4, 12), {.ends = 0.1F});
  EXPECT_EQ(limits.sink, TokenCount(8));
  EXPECT_EQ(limits.recent, TokenCount(12));
  EXPECT_EQ(limits.held.begin, limits.held.end);
}

TEST(Shares, HoldBothEndsOfThePromptInDecode) {
  const Limits limits = InDecode(MakeLimits(80, 4, 4), {.ends = 0.1F}, 60);
  EXPECT_EQ(limits.sink, TokenCount(8));
  EXPECT_EQ(limits.recent, TokenCount(4));
  EXPECT_EQ(limits.held.begin, 13U);
  EXPECT_EQ(limits.held.end, 15U);
  // A block with one token of the prompt is one of its blocks.
  EXPECT_EQ(InDecode(MakeLimits(80, 4, 4), {.ends = 0.1F}, 61).held.end, 16U);
  // No more is left than the two ends.
  EXPECT_EQ(InDecode(MakeLimits(80, 4, 4), {.ends = 0.1F}, 16).sink, TokenCount(16));
  EXPECT_EQ(InDecode(MakeLimits(80, 4, 4), {.ends = 0.1F}, 16).held.end, 0U);
}

TEST(Shares, LeaveThePromptItsShareInDecode) {
  const Shares half = {.prompt = 0.5F};
  EXPECT_EQ(InDecode(MakeLimits(80, 4, 4), half, 44).sink, TokenCount(4));
  EXPECT_EQ(InDecode(MakeLimits(80, 4, 4), half, 40).sink, TokenCount(40));
  EXPECT_EQ(InDecode(MakeLimits(80, 4, 4), half, 12).sink, TokenCount(12));
}

TEST(Shares, AreRefusedOutOfRange) {
  const PolicyTraits traits = MakePolicy(PagedEvictionSpec())->traits();
  const auto check = [&](const Shares& shares) {
    return std::string(CheckShares(shares, traits).message());
  };
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check({.prompt = 0.9F, .ends = 0.4F, .segments = 64}), "");
  for (const float wrong : {-0.1F, 0.91F, std::nanf("")}) {
    EXPECT_THAT(check({.prompt = wrong}), HasSubstr("prompt_share"));
  }
  for (const float wrong : {-0.1F, 0.41F, std::nanf("")}) {
    EXPECT_THAT(check({.ends = wrong}), HasSubstr("protect_ends"));
  }
  for (const uint32_t wrong : {0U, 65U}) {
    EXPECT_THAT(check({.segments = wrong}), HasSubstr("segments"));
  }
}

CacheConfig Config(const PolicySpec& policy, uint32_t budget, const Shares& shares) {
  CacheConfig config;
  config.policy = *ChosenPolicy::Make(policy);
  config.budget = TokenCount(budget);
  config.sink = TokenCount(4);
  config.recent = TokenCount(4);
  config.shares = shares;
  return config;
}

std::string Refusal(const PolicySpec& policy, uint32_t budget, const Shares& shares) {
  return std::string(Validate(Config(policy, budget, shares), kPage, 2).message());
}

TEST(Shares, MustFitTheBudget) {
  EXPECT_EQ(Refusal(PagedEvictionSpec(), 80, {.prompt = 0.5F, .ends = 0.1F, .segments = 4}), "");
  EXPECT_THAT(Refusal(PagedEvictionSpec(), 8, {.ends = 0.4F}),
              HasSubstr("sink_tokens 4 + protect_ends 4 + recent_tokens 4 = 12 do not fit"));
  EXPECT_THAT(Refusal(PagedEvictionSpec(), 12, {.prompt = 0.9F}),
              HasSubstr("prompt_share 12 + recent_tokens 4 = 16 do not fit"));
  EXPECT_THAT(Refusal(KvCrushSpec{.base = PagedEvictionSpec(), .options = {.share = 0.25F}}, 800,
                      {.ends = 0.4F}),
              HasSubstr("take 1.05 of the budget"));
  EXPECT_THAT(Refusal(FullSpec(), 0, {.ends = 0.1F}), HasSubstr("do not go with policy full"));
  EXPECT_THAT(Refusal(StreamingLlmSpec(), 80, {.segments = 2}),
              HasSubstr("segments 2 does not go with policy streaming_llm"));
}

// Each budget from the smallest that is named on fits, with every mix of shares.
TEST(Shares, TheSmallestBudgetAndAllAboveItFit) {
  const PolicySpec policies[] = {
      PagedEvictionSpec(), SnapKvSpec(),
      KvCrushSpec{.base = PagedEvictionSpec(), .options = {.share = 0.04F}}};
  for (const PolicySpec& policy : policies) {
    for (const float prompt : {0.0F, 0.3F, 0.9F}) {
      for (const float ends : {0.0F, 0.13F, 0.4F}) {
        CacheConfig config = Config(policy, 0, {.prompt = prompt, .ends = ends, .segments = 3});
        const uint32_t least = MinBudget(config, kPage).value();
        for (uint32_t budget = least; budget < least + 100 * kPage; budget += kPage) {
          config.budget = TokenCount(budget);
          EXPECT_EQ(Validate(config, kPage, 2), absl::OkStatus()) << prompt << " " << ends;
        }
      }
    }
  }
}

TEST(Shares, QuotasAloneNeedNoLargerBudget) {
  CacheConfig config = Config(PagedEvictionSpec(), 0, {.segments = 4});
  EXPECT_EQ(MinBudget(config, kPage), TokenCount(8));
  const KvCrushSpec crush{.base = PagedEvictionSpec(), .options = {.share = 0.97F}};
  EXPECT_EQ(Refusal(crush, 800, {.segments = 2}), "");
}

std::vector<TokenSlot> Slots(const std::vector<uint32_t>& slots) {
  std::vector<TokenSlot> ends;
  for (const uint32_t slot : slots) ends.emplace_back(slot);
  return ends;
}

// Eight tokens stay between one sink and one recent token, so two stretches have three each.
TEST(Quotas, KeepTheBestOfEachStretchAndThenTheBestOfAll) {
  std::vector<float> numbers = {0, 1, 2, 3, 4, 5, 6, 20, 21, 22, 23, 24, 25, 26, 27, 0};
  KeepQuotas(Slots({8, 16}), MakeLimits(10, 1, 1), TokenCount(8), numbers);
  const std::vector<float> kept = {0,  1,  2,  3,  4,         kInfinity, kInfinity, kInfinity,
                                   21, 22, 23, 24, kInfinity, kInfinity, kInfinity, 0};
  EXPECT_EQ(numbers, kept);
  EXPECT_THAT(Values(KeepHighest(numbers, MakeLimits(10, 1, 1))),
              ElementsAre(0, 5, 6, 7, 10, 11, 12, 13, 14, 15));
}

TEST(Quotas, TokensThatStayAnywayAreNotPartOfThem) {
  std::vector<float> numbers = {kInfinity, 1, 2, kInfinity, 4, 3, 2, 1};
  // Four of six are free, and three quarters of two stretches are one each.
  KeepQuotas(Slots({4, 8}), MakeLimits(6, 0, 0), TokenCount(6), numbers);
  EXPECT_THAT(numbers, ElementsAre(kInfinity, 1, kInfinity, kInfinity, kInfinity, 3, 2, 1));
}

TEST(Quotas, AShortStretchKeepsAllItHas) {
  std::vector<float> numbers = {0, 8, 1, 2, 3, 4, 5, 6};
  KeepQuotas(Slots({1, 8}), MakeLimits(4, 0, 0), TokenCount(4), numbers);
  EXPECT_THAT(numbers, ElementsAre(kInfinity, kInfinity, 1, 2, 3, 4, 5, 6));
}

TEST(Quotas, AStretchMayBeEmpty) {
  std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7, 8};
  KeepQuotas(Slots({8, 8}), MakeLimits(4, 0, 0), TokenCount(4), numbers);
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4, 5, 6, 7, kInfinity));
}

TEST(Quotas, WithoutStretchesNothingHappens) {
  std::vector<float> numbers = {1, 2, 3};
  KeepQuotas({}, MakeLimits(2, 0, 0), TokenCount(2), numbers);
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3));
}

// Six blocks of two tokens, of which five fit.
class Blocks : public ::testing::Test {
 protected:
  BlockIndex Drop(const PolicySpec& policy, const Limits& limits,
                  const std::vector<TokenSlot>& stretch_ends = {}) {
    LayerScores view = table_.view();
    view.stretch_ends = stretch_ends;
    return MakePolicy(policy)->SelectDecode(view, limits);
  }

  const ScoreTable table_{OneHead({0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}), 2};
};

TEST_F(Blocks, ThatAreHeldStay) {
  Limits limits = MakeLimits(10, 0, 2);
  EXPECT_EQ(Drop(PagedEvictionSpec(), limits), BlockIndex(0));
  limits.held = {0, 2};
  EXPECT_EQ(Drop(PagedEvictionSpec(), limits), BlockIndex(2));
  EXPECT_EQ(Drop(StreamingLlmSpec(), limits), BlockIndex(2));
  const KvCrushSpec crush{.base = PagedEvictionSpec(), .options = {.share = 0.4F}};
  EXPECT_GE(Drop(crush, limits), BlockIndex(2));
  // One block is left to go.
  limits.held = {0, 4};
  EXPECT_EQ(Drop(crush, limits), BlockIndex(4));
  EXPECT_EQ(Drop(PagedEvictionSpec(), limits), BlockIndex(4));
}

TEST_F(Blocks, WithoutARowGoRatherThanHeldOnes) {
  LayerScores view = table_.view();
  view.scored = TokenCount(8);
  Limits limits = MakeLimits(10, 0, 0);
  limits.held = {0, 4};
  EXPECT_EQ(MakePolicy(PagedEvictionSpec())->SelectDecode(view, limits), BlockIndex(4));
}

TEST_F(Blocks, OfAStretchWithinItsQuotaStay) {
  // Three quarters of five blocks are one for each of two stretches, and the first has one.
  EXPECT_EQ(Drop(PagedEvictionSpec(), MakeLimits(10, 0, 0), Slots({2, 12})), BlockIndex(1));
  EXPECT_EQ(Drop(PagedEvictionSpec(), MakeLimits(10, 0, 0), Slots({4, 12})), BlockIndex(0));
  // Of three that may go two stay, whose quotas are none.
  Limits held = MakeLimits(10, 0, 0);
  held.held = {0, 3};
  EXPECT_EQ(Drop(PagedEvictionSpec(), held, Slots({8, 12})), BlockIndex(3));
  // One is left to go.
  EXPECT_EQ(Drop(PagedEvictionSpec(), MakeLimits(10, 8, 2), Slots({2, 12})), BlockIndex(4));
}

}  // namespace
}  // namespace folio::policy
