// Commit and Ack are steps of one sequence, for tests that look at one thing at a time.
#ifndef FOLIO_TESTS_CACHE_SINGLE_STEP_H_
#define FOLIO_TESTS_CACHE_SINGLE_STEP_H_

#include "absl/status/statusor.h"
#include "services/cache/coordinator.h"

namespace folio::cache {

// A step that commits one sequence.
struct CommitRequest : CommitTokens {
  WorkerId worker;
};
inline absl::StatusOr<Outcome> Commit(Coordinator& coordinator, const CommitRequest& request) {
  return coordinator.Step(request.worker, {}, {request})[0];
}
// A step that acknowledges one plan.
inline absl::StatusOr<Outcome> Ack(Coordinator& coordinator, WorkerId worker, const AckPlan& ack) {
  return coordinator.Step(worker, {ack}, {})[0];
}

}  // namespace folio::cache

#endif  // FOLIO_TESTS_CACHE_SINGLE_STEP_H_
