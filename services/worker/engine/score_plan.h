// PlanScores translates the scores that a sequence's policy needs into the executor's terms.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SCORE_PLAN_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SCORE_PLAN_H_

#include "absl/status/statusor.h"
#include "kernels/views.h"
#include "services/base/layer_range.h"
#include "services/base/score_kind.h"
#include "services/model/executor/executor.h"

namespace folio::worker {

struct ScorePlan {
  ScoreKind kind = ScoreKind::kNone;  // in the board's first channel
  model::WindowScore window;          // of the prompt's end; queries may exceed the prompt
  LayerRange layers = kAllLayers;     // in which scores are wanted
};

// `first` and `second` are what the policy needs in the board's two channels, in `layers`. The
// second is for the prompt alone. INTERNAL if this worker cannot write them: a kind or time that it
// does not know, a window without queries, a pool that is even or too large, two windows (a chunk
// of the prompt can score only one), or no layer.
absl::StatusOr<ScorePlan> PlanScores(const ScoreNeed& first, const ScoreNeed& second,
                                     const LayerRange& layers = kAllLayers);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SCORE_PLAN_H_
