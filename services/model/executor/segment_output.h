// FillOutput turns a segment's last row of logits into its output: a token and, where requested,
// log-probabilities.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_SEGMENT_OUTPUT_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_SEGMENT_OUTPUT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/model/executor/executor.h"

namespace folio::model {

// `next` is the logical position of the token to choose. INTERNAL if a logit is not finite. Any
// thread.
absl::Status FillOutput(const StepSegment& segment, Position next, absl::Span<const float> logits,
                        SegmentOutput& output);

// The error for a logit that is not finite, at the position before `next`.
absl::Status NotFinite(Position next);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_SEGMENT_OUTPUT_H_
