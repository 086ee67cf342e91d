#include "services/worker/engine/score_plan.h"

#include <gtest/gtest.h>

namespace folio::worker {
namespace {

ScoreNeed Need(ScoreKind kind, ScoreTime time, uint32_t window = 0, uint32_t pool = 0) {
  return {kind, time, window, pool};
}

ScoreNeed Window(uint32_t window, uint32_t pool) {
  return Need(ScoreKind::kWindowAttention, ScoreTime::kPromptEnd, window, pool);
}

absl::StatusOr<ScorePlan> Plan(const ScoreNeed& first, const ScoreNeed& second = {}) {
  return PlanScores(first, second);
}

TEST(PlanScores, NothingAskedIsNothingScored) {
  const auto plan = PlanScores({}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->kind, ScoreKind::kNone);
  EXPECT_EQ(plan->window.queries, 0u);
}

TEST(PlanScores, EachKindAtItsTime) {
  const struct {
    ScoreNeed need;
    ScoreKind kind;
  } pairs[] = {
      {Need(ScoreKind::kNormRatio, ScoreTime::kAppend), ScoreKind::kNormRatio},
      {Need(ScoreKind::kInverseKeyNorm, ScoreTime::kAppend), ScoreKind::kInverseKeyNorm},
      {Need(ScoreKind::kKeyDifference, ScoreTime::kDecision), ScoreKind::kKeyDifference},
      {Need(ScoreKind::kUnrotatedDifference, ScoreTime::kPageFill),
       ScoreKind::kUnrotatedDifference},
      {Window(64, 7), ScoreKind::kWindowAttention},
  };
  for (const auto& [need, kind] : pairs) {
    const auto plan = Plan(need);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->kind, kind);
    EXPECT_EQ(plan->window.queries, kind == ScoreKind::kWindowAttention ? 64u : 0u);
  }
}

TEST(PlanScores, LayersAreThoseOfTheManager) {
  const ScoreNeed need = Need(ScoreKind::kUnrotatedDifference, ScoreTime::kPageFill);
  EXPECT_EQ(PlanScores(need, {})->layers, kAllLayers);
  EXPECT_EQ(PlanScores(need, {}, {20, 25})->layers, (LayerRange{20, 25}));
  const absl::Status refused = PlanScores(need, {}, {25, 25}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(refused.message(),
            "the manager asks for scores of layers from 25 to 25, which are none");
}

TEST(PlanScores, AWindowGoesToTheChannelThatNeedsIt) {
  const auto alone = Plan(Window(64, 7));
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->window.neighbours, 3u);
  EXPECT_EQ(alone->window.channel, 0u);
  const auto both =
      Plan(Need(ScoreKind::kUnrotatedDifference, ScoreTime::kPageFill), Window(16, 31));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->kind, ScoreKind::kUnrotatedDifference);
  EXPECT_EQ(both->window.queries, 16u);
  EXPECT_EQ(both->window.neighbours, 15u);
  EXPECT_EQ(both->window.channel, 1u);
}

TEST(PlanScores, RefusesWhatItCannotWrite) {
  const ScoreNeed ratio = Need(ScoreKind::kNormRatio, ScoreTime::kAppend);
  const std::pair<ScoreNeed, ScoreNeed> wrong[] = {
      {Need(ScoreKind::kNormRatio, ScoreTime::kDecision), {}},
      {Need(ScoreKind::kNormRatio, ScoreTime::kAppend, 3, 1), {}},  // a window of nothing
      {Need(static_cast<ScoreKind>(99), ScoreTime::kAppend), {}},
      {Window(0, 7), {}},
      {Window(16, 8), {}},
      {Window(16, 4294967295u), {}},
      {Window(16, 7), Window(16, 7)},
      {ratio, ratio},
      {ratio, Window(16, 0)},
      {{}, ratio},  // the second channel holds a window alone
  };
  for (const auto& [first, second] : wrong) {
    const auto plan = Plan(first, second);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInternal)
        << static_cast<int>(first.kind) << " / " << static_cast<int>(second.kind);
  }
}

}  // namespace
}  // namespace folio::worker
