// Layers that decide together.
#include "services/policy/agreement.h"

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/policy/kept_scores.h"
#include "services/policy/registry.h"
#include "tests/policy/score_table.h"

namespace folio::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Agree(size_t begin, size_t end, const std::vector<std::vector<float>>& layers) {
  Agreement agreement(begin, end);
  for (const auto& layer : layers) agreement.Add(layer);
  return std::move(agreement).Take();
}

TEST(Agreement, AddsDistancesFromTheMeanInStandardDeviations) {
  // Layer 0 has the mean 3 and the deviation 2, layer 1 the mean 100 and the deviation 10.
  EXPECT_THAT(Agree(0, 4, {{1, 5, 1, 5}, {90, 90, 110, 110}}),
              ElementsAre(FloatEq(-2), FloatEq(0), FloatEq(0), FloatEq(2)));
}

TEST(Agreement, LeavesProtectedNumbersOutOfTheScale) {
  EXPECT_THAT(Agree(1, 5, {{1e9, 1, 5, 1, 5, -1e9}}),
              ElementsAre(0, FloatEq(-1), FloatEq(1), FloatEq(-1), FloatEq(1), 0));
}

TEST(Agreement, EqualNumbersHaveNoSay) {
  EXPECT_THAT(Agree(0, 2, {{7, 7}, {1, 3}}), ElementsAre(FloatEq(-1), FloatEq(1)));
}

TEST(Agreement, KeepsInfinities) {
  EXPECT_THAT(
      Agree(0, 5, {{1, kInfinity, -kInfinity, 3, kInfinity}, {1, 3, 3, 1, -kInfinity}}),
      ElementsAre(FloatNear(-2, 1e-6F), kInfinity, -kInfinity, FloatNear(0, 1e-6F), -kInfinity));
  EXPECT_THAT(Agree(0, 2, {{kInfinity, -kInfinity}}), ElementsAre(kInfinity, -kInfinity));
}

TEST(SharedLayers, KeepWhatIsOfUseInAllLayers) {
  // Token 1 is the best of layer 0 and the worst of layer 1, and token 2 the other way round. Token
  // 3 is good in both, and layer 1 measures in thousands.
  const ScoreTable first(OneHead({1, 9, 0, 7, 3, 3}), 2);
  const ScoreTable second(OneHead({1000, 0, 9000, 7000, 3000, 3000}), 2);
  const std::vector<LayerScores> group = {first.view(), second.view()};
  const auto policy = MakePolicy(PagedEvictionSpec());
  EXPECT_THAT(Values(policy->SelectPrefill(group, MakeLimits(1, 0, 0))), ElementsAre(3));
  EXPECT_THAT(Values(policy->SelectPrefill(group[0], MakeLimits(1, 0, 0))), ElementsAre(1));
  EXPECT_THAT(Values(policy->SelectPrefill(group[1], MakeLimits(1, 0, 0))), ElementsAre(2));
  // Blocks have the means 5, 3.5, 3 and 500, 8000, 3000. Layer 1 alone would drop the first, which
  // is the highest of layer 0.
  EXPECT_EQ(policy->SelectDecode(group, MakeLimits(4, 0, 0), {}), BlockIndex(2));
  EXPECT_EQ(policy->SelectDecode(group[1], MakeLimits(4, 0, 0)), BlockIndex(0));
}

TEST(SharedLayers, AttentionOfThePromptsEndIsAgreedOnToo) {
  const ScoreTable same(OneHead({1, 1, 1, 1, 1, 1, 1, 1}), 2);
  const ScoreTable first(OneHead({0, 9, 0, 8, 0, 0, 0, 0}), 2);
  const ScoreTable second(OneHead({0, 0, 9, 8, 0, 0, 0, 0}), 2);
  std::vector<LayerScores> group = {same.view(), same.view()};
  const LayerScores asked[] = {first.view(), second.view()};
  for (size_t layer = 0; layer < 2; ++layer) group[layer].prompt_pages = asked[layer].pages;
  const auto policy = MakePolicy(QueryDiffSpec{{.share = 1, .window = 1, .pool = 1}});
  EXPECT_THAT(Values(policy->SelectPrefill(group, MakeLimits(2, 0, 0))), ElementsAre(3, 7));
}

TEST(SharedLayers, StreamingLlmGoesByPosition) {
  const ScoreTable table(OneHead({1, 1, 1, 1, 1, 1}), 2);
  const std::vector<LayerScores> group = {table.view(), table.view()};
  const auto policy = MakePolicy(StreamingLlmSpec());
  EXPECT_THAT(Values(policy->SelectPrefill(group, MakeLimits(4, 2, 2))), ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(policy->SelectDecode(group, MakeLimits(4, 2, 2), {}), BlockIndex(1));
}

TEST(SharedLayers, RandomDrawsForAllLayersTogether) {
  const ScoreTable table(OneHead(std::vector<float>(400, 1)), 16);
  std::vector<LayerScores> group = {table.view(), table.view()};
  group[1].layer = LayerIndex(1);
  for (LayerScores& layer : group) layer.logical_length = TokenCount(400);
  const auto keep = [&](uint64_t seed, LayerGroup layers) {
    return Values(MakePolicy(RandomSpec{seed})->SelectPrefill(layers, MakeLimits(64, 16, 16)));
  };
  EXPECT_EQ(keep(1, group), keep(1, group));
  EXPECT_NE(keep(1, group), keep(2, group));
  EXPECT_NE(keep(1, group), keep(1, LayerGroup(group).first(1)));
}

// Scores that are kept between decisions, and blocks that come and go, change no choice.
TEST(SharedLayers, KeptScoresChangeNoChoice) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr uint32_t kPage = 4, kHeads = 3, kLayers = 3, kRounds = 40;
  const std::vector<PolicySpec> specs = {PagedEvictionSpec(), KvCrushSpec(), QueryDiffSpec(),
                                         KeyDiffSpec(), KvCrushSpec{KeyDiffSpec()}};
  for (const PolicySpec& spec : specs) {
    const auto policy = MakePolicy(spec);
    std::vector<std::vector<std::vector<float>>> rows(kLayers);  // [layer][token][head]
    std::vector<KeptScores> kept(kLayers);
    for (uint32_t round = 0; round < kRounds; ++round) {
      std::vector<std::unique_ptr<ScoreTable>> tables;
      std::vector<LayerScores> group;
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        do {
          for (uint32_t token = 0; token < kPage; ++token) {
            rows[layer].emplace_back(kHeads);
            for (float& score : rows[layer].back()) {
              score = random() % 50 == 0 ? NAN : static_cast<float>(random() % 1000);
            }
          }
        } while (rows[layer].size() < 12 * kPage);
        tables.push_back(std::make_unique<ScoreTable>(rows[layer], kPage));
        group.push_back(tables.back()->view());
        kept[layer].Update(*policy, group.back());
      }
      const Limits limits = MakeLimits(11 * kPage, kPage, 2 * kPage);
      const BlockIndex chosen = policy->SelectDecode(group, limits, {});
      ASSERT_EQ(policy->SelectDecode(group, limits, absl::MakeSpan(kept)), chosen)
          << policy->traits().name << ", round " << round;
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        const auto first = rows[layer].begin() + chosen.value() * kPage;
        rows[layer].erase(first, first + kPage);
        kept[layer].Drop(chosen);
      }
    }
  }
}

}  // namespace
}  // namespace folio::policy
