// What a sequence's policy needs scored, in the executor's terms.
#ifndef FOLIO_SERVICES_WORKER_SCORE_PLAN_H_
#define FOLIO_SERVICES_WORKER_SCORE_PLAN_H_

#include "absl/status/statusor.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/model/executor.h"

namespace folio::worker {

struct ScorePlan {
  kernels::ScoreKind kind = kernels::ScoreKind::kNone;  // of the first plane
  model::WindowScore window;  // of the prompt's end; queries may exceed the prompt
};

// Of what the policy needs in the first plane and, for the prompt, in the second. INTERNAL for what
// this worker cannot write: a kind or time it does not know, a window without
// queries, a pool that is even or beyond all reason, two windows.
absl::StatusOr<ScorePlan> PlanScores(const folio::v1::ScoreNeed& first,
                                     const folio::v1::ScoreNeed& second);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_SCORE_PLAN_H_
