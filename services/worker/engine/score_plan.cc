#include "services/worker/engine/score_plan.h"

#include "absl/strings/str_cat.h"

namespace folio::worker {
namespace {

absl::Status CannotWrite(const ScoreNeed& need, uint32_t channel) {
  const auto kind = static_cast<int>(need.kind);
  return absl::InternalError(
      absl::StrCat("the manager asks for scores that this worker cannot write: ",
                   IsKnown(need.kind) ? TraitsOf(need.kind).name : absl::StrCat("kind ", kind),
                   " in channel ", channel, ", time ", static_cast<int>(need.time), ", window ",
                   need.window, ", pool ", need.pool));
}

absl::Status CheckNeed(const ScoreNeed& need, uint32_t channel) {
  if (!IsKnown(need.kind)) return CannotWrite(need, channel);
  const ScoreTraits& traits = TraitsOf(need.kind);
  const bool windowed = traits.cost == ScoreCost::kWindow;
  if (need.time != traits.time || windowed != (need.window > 0) ||
      windowed != (need.pool % 2 == 1) || need.pool / 2 > kernels::kMaxNeighbours) {
    return CannotWrite(need, channel);
  }
  const bool wanted = need.kind != ScoreKind::kNone;
  return wanted && channel >= traits.channels ? CannotWrite(need, channel) : absl::OkStatus();
}

model::WindowScore WindowOf(const ScoreNeed& need, uint32_t channel) {
  return {need.window, need.pool / 2, channel};
}

}  // namespace

absl::StatusOr<ScorePlan> PlanScores(const ScoreNeed& first, const ScoreNeed& second,
                                     const LayerRange& layers) {
  if (layers.begin >= layers.end) {
    return absl::InternalError(absl::StrCat("the manager asks for scores of layers from ",
                                            layers.begin, " to ", layers.end, ", which are none"));
  }
  absl::Status known = CheckNeed(first, 0);
  known.Update(CheckNeed(second, 1));
  if (!known.ok()) return known;
  ScorePlan plan = {.kind = first.kind, .window = {}, .layers = layers};
  if (first.window > 0) plan.window = WindowOf(first, 0);
  if (second.kind == ScoreKind::kNone) return plan;
  if (first.window > 0) return CannotWrite(second, 1);
  plan.window = WindowOf(second, 1);
  return plan;
}

}  // namespace folio::worker
