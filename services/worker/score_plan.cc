#include "services/worker/score_plan.h"

#include "absl/strings/str_cat.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

// The scores that this worker can write, and when.
struct KnownScore {
  v1::ScoreKind kind;
  v1::ScoreTime time;
  kernels::ScoreKind score;
};
constexpr KnownScore kKnownScores[] = {
    {v1::SCORE_KIND_UNSPECIFIED, v1::SCORE_TIME_UNSPECIFIED, kernels::ScoreKind::kNone},
    {v1::SCORE_KIND_NORM_RATIO, v1::SCORE_TIME_APPEND, kernels::ScoreKind::kNormRatio},
    {v1::SCORE_KIND_INVERSE_KEY_NORM, v1::SCORE_TIME_APPEND, kernels::ScoreKind::kInverseKeyNorm},
    {v1::SCORE_KIND_KEY_DIFFERENCE, v1::SCORE_TIME_DECISION, kernels::ScoreKind::kKeyDifference},
    {v1::SCORE_KIND_WINDOW_ATTENTION, v1::SCORE_TIME_PROMPT_END,
     kernels::ScoreKind::kWindowAttention},
    {v1::SCORE_KIND_UNROTATED_DIFFERENCE, v1::SCORE_TIME_PAGE_FILL,
     kernels::ScoreKind::kUnrotatedDifference},
};

absl::Status CannotWrite(const v1::ScoreNeed& need) {
  return absl::InternalError(absl::StrCat(
      "the manager wants scores that this worker cannot write: ", need.ShortDebugString()));
}

absl::StatusOr<kernels::ScoreKind> KindOf(const v1::ScoreNeed& need) {
  const bool windowed = need.kind() == v1::SCORE_KIND_WINDOW_ATTENTION;
  if (windowed != (need.window() > 0) || windowed != (need.pool() % 2 == 1) ||
      need.pool() / 2 > kernels::kMostNeighbours) {
    return CannotWrite(need);
  }
  for (const KnownScore& known : kKnownScores) {
    if (need.kind() == known.kind && need.time() == known.time) return known.score;
  }
  return CannotWrite(need);
}

model::WindowScore WindowOf(const v1::ScoreNeed& need, uint32_t plane) {
  return {need.window(), need.pool() / 2, plane};
}

}  // namespace

absl::StatusOr<ScorePlan> PlanScores(const v1::ScoreNeed& first, const v1::ScoreNeed& second) {
  const auto kind = KindOf(first);
  if (!kind.ok()) return kind.status();
  ScorePlan plan = {.kind = *kind, .window = {}};
  if (*kind == kernels::ScoreKind::kWindowAttention) plan.window = WindowOf(first, 0);

  // The second plane is the prompt's, and one window is all that a chunk can score.
  const auto prompt_kind = KindOf(second);
  if (!prompt_kind.ok()) return prompt_kind.status();
  if (*prompt_kind == kernels::ScoreKind::kNone) return plan;
  if (*prompt_kind != kernels::ScoreKind::kWindowAttention || plan.window.queries > 0) {
    return CannotWrite(second);
  }
  plan.window = WindowOf(second, 1);
  return plan;
}

}  // namespace folio::worker
