#include "services/worker/score_plan.h"

#include <gtest/gtest.h>

namespace folio::worker {
namespace {

namespace v1 = folio::v1;
using kernels::ScoreKind;

v1::ScoreNeed Need(v1::ScoreKind kind, v1::ScoreTime time, uint32_t window = 0, uint32_t pool = 0) {
  v1::ScoreNeed need;
  need.set_kind(kind);
  need.set_time(time);
  need.set_window(window);
  need.set_pool(pool);
  return need;
}

v1::ScoreNeed Window(uint32_t window, uint32_t pool) {
  return Need(v1::SCORE_KIND_WINDOW_ATTENTION, v1::SCORE_TIME_PROMPT_END, window, pool);
}

absl::StatusOr<ScorePlan> Plan(const v1::ScoreNeed& first, const v1::ScoreNeed& second = {}) {
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
    v1::ScoreNeed need;
    ScoreKind kind;
  } pairs[] = {
      {Need(v1::SCORE_KIND_NORM_RATIO, v1::SCORE_TIME_APPEND), ScoreKind::kNormRatio},
      {Need(v1::SCORE_KIND_INVERSE_KEY_NORM, v1::SCORE_TIME_APPEND), ScoreKind::kInverseKeyNorm},
      {Need(v1::SCORE_KIND_KEY_DIFFERENCE, v1::SCORE_TIME_DECISION), ScoreKind::kKeyDifference},
      {Need(v1::SCORE_KIND_UNROTATED_DIFFERENCE, v1::SCORE_TIME_PAGE_FILL),
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

TEST(PlanScores, AWindowGoesToThePlaneThatWantsIt) {
  const auto alone = Plan(Window(64, 7));
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->window.neighbours, 3u);
  EXPECT_EQ(alone->window.plane, 0u);
  const auto both =
      Plan(Need(v1::SCORE_KIND_UNROTATED_DIFFERENCE, v1::SCORE_TIME_PAGE_FILL), Window(16, 31));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->kind, ScoreKind::kUnrotatedDifference);
  EXPECT_EQ(both->window.queries, 16u);
  EXPECT_EQ(both->window.neighbours, 15u);
  EXPECT_EQ(both->window.plane, 1u);
}

TEST(PlanScores, RefusesWhatItCannotWrite) {
  const v1::ScoreNeed ratio = Need(v1::SCORE_KIND_NORM_RATIO, v1::SCORE_TIME_APPEND);
  const std::pair<v1::ScoreNeed, v1::ScoreNeed> wrong[] = {
      {Need(v1::SCORE_KIND_NORM_RATIO, v1::SCORE_TIME_DECISION), {}},
      {Need(v1::SCORE_KIND_NORM_RATIO, v1::SCORE_TIME_APPEND, 3, 1), {}},  // a window of nothing
      {Need(static_cast<v1::ScoreKind>(99), v1::SCORE_TIME_APPEND), {}},
      {Window(0, 7), {}},
      {Window(16, 8), {}},
      {Window(16, 4294967295u), {}},
      {Window(16, 7), Window(16, 7)},
      {ratio, ratio},
      {ratio, Window(16, 0)},
  };
  for (const auto& [first, second] : wrong) {
    const auto plan = Plan(first, second);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInternal)
        << first.ShortDebugString() << " / " << second.ShortDebugString();
  }
}

}  // namespace
}  // namespace folio::worker
