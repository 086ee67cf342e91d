// Policies whose numbers do not come with each token: snap_kv and random.
#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/registry.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

LayerScores WithPrompt(LayerScores scores, uint32_t prompt_tokens) {
  scores.scored = TokenCount(prompt_tokens);
  return scores;
}

TEST(SnapKv, KeepsTheWindowAndTheHighest) {
  const ScoreTable table(OneHead({0, 0, 5, 1, 9, 2, 7, 0, 0, 0}), 2);
  const LayerScores scores = WithPrompt(table.view(), 10);
  // The window of 3 is more than the recent 2.
  EXPECT_THAT(Values(MakePolicy(SnapKvSpec{3})->SelectPrefill(scores, MakeLimits(6, 2, 2))),
              ElementsAre(0, 1, 4, 7, 8, 9));
  EXPECT_THAT(Values(MakePolicy(SnapKvSpec{1})->SelectPrefill(scores, MakeLimits(6, 2, 2))),
              ElementsAre(0, 1, 4, 6, 8, 9));
  EXPECT_THAT(Values(MakePolicy(SnapKvSpec{1})->SelectPrefill(scores, MakeLimits(4, 0, 0))),
              ElementsAre(2, 4, 6, 9));
}

TEST(SnapKv, DropsScoredPagesFirstThenTheOldest) {
  // Pages of two; what decode wrote has no score, and must not be read.
  const ScoreTable table(OneHead({0, 0, 3, 3, 1, 1, 2, 2, kNan, kNan, kNan, kNan, kNan, kNan}), 2);
  const auto policy = MakePolicy(SnapKvSpec{1});
  const Limits limits = MakeLimits(12, 2, 2);
  EXPECT_EQ(policy->SelectDecode(WithPrompt(table.view(), 8), limits).value(), 2U);
  // Prompt ends inside page 3: its mean is over its one token of the prompt, 2.
  EXPECT_EQ(policy->SelectDecode(WithPrompt(table.view(), 7), limits).value(), 2U);
  EXPECT_EQ(policy->SelectDecode(WithPrompt(table.view(), 7), MakeLimits(12, 6, 2)).value(), 3U);
  // Only the sink is left of the prompt.
  EXPECT_EQ(policy->SelectDecode(WithPrompt(table.view(), 2), limits).value(), 1U);
  EXPECT_EQ(policy->SelectDecode(WithPrompt(table.view(), 0), limits).value(), 1U);
}

TEST(SnapKv, UnderKvCrushReadsNoRowOfDecode) {
  const ScoreTable table(OneHead({0, 0, 3, 3, 1, 1, 2, 2, kNan, kNan, kNan, kNan}), 2);
  const auto policy = MakePolicy(
      KvCrushSpec{.base = SnapKvSpec{1}, .options = {.share = 0.2F, .anchor = CrushAnchor::kOnes}});
  // One representative of the two lowest pages, 2 and 3. The upper four of the unprotected tokens 2
  // to 9 are 2, 3 (3 each) and 6, 7 (2 each), so page 3 is 11 and stays.
  EXPECT_EQ(policy->SelectDecode(WithPrompt(table.view(), 8), MakeLimits(10, 2, 2)).value(), 2U);
}

LayerScores Blind(uint32_t tokens, uint32_t layer, uint32_t logical_length) {
  return {.page_tokens = 2,
          .tokens = TokenCount(tokens),
          .layer = LayerIndex(layer),
          .logical_length = TokenCount(logical_length)};
}

TEST(Random, RepeatsFromTheSeedAndDiffersByLayer) {
  const Limits limits = MakeLimits(10, 2, 2);
  const auto keep = [&](uint64_t seed, uint32_t layer) {
    return Values(MakePolicy(RandomSpec{seed})->SelectPrefill(Blind(200, layer, 200), limits));
  };
  EXPECT_EQ(keep(1, 0), keep(1, 0));
  EXPECT_NE(keep(1, 0), keep(2, 0));
  EXPECT_NE(keep(1, 0), keep(1, 1));
}

// Chi-square of 8 cells: 40 is far beyond chance (p < 1e-5), and seeds are fixed.
template <typename Draw>
void ExpectUniform(int draws, const Draw& draw) {
  std::map<uint32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[draw(i)];
  double chi = 0;
  for (uint32_t cell = 1; cell < 9; ++cell) {
    const double expected = draws / 8.0;
    chi += (counts[cell] - expected) * (counts[cell] - expected) / expected;
  }
  EXPECT_EQ(counts.size(), 8U);
  EXPECT_LT(chi, 40);
}

TEST(Random, EveryTokenAndEveryCandidateBlockIsAsLikely) {
  ExpectUniform(4000, [](int i) {  // one of slots 1 to 8
    const auto keep = Values(MakePolicy(RandomSpec{static_cast<uint64_t>(i)})
                                 ->SelectPrefill(Blind(10, 3, 10), MakeLimits(3, 1, 1)));
    return keep[1];
  });
  const auto policy = MakePolicy(RandomSpec{7});
  ExpectUniform(4000, [&](int i) {  // one of blocks 1 to 8, drawn again at each decision
    return policy->SelectDecode(Blind(20, 0, 20 + 2 * i), MakeLimits(18, 2, 2)).value();
  });
}

}  // namespace
}  // namespace folio::policy
