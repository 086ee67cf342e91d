// FillOutput turns a segment's last row of logits into its output: a token and, where requested,
// log-probabilities. Logits that are not finite make it an error of that segment alone.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_SEGMENT_OUTPUT_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_SEGMENT_OUTPUT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/model/executor/executor.h"

namespace folio::model {

// `next` is the logical position of the token to choose, and `last` the token that the slot sampled
// before. If a logit is not finite, the output has the status NotFinite and no token. If no token
// is left to sample, it has NoTokenLeft. Any thread.
void FillOutput(const StepSegment& segment, Position next, TokenId last,
                absl::Span<const float> logits, SegmentOutput& output);

// The error for a logit that is not finite, at the position before `next`. It is DATA_LOSS, because
// the numbers of this one sequence are lost, in its pages or by overflow. INTERNAL would say that
// the device failed for all. The SDKs resume after UNAVAILABLE alone, which is right here: another
// worker would read the same pages and get the same number.
absl::Status NotFinite(Position next);

// The error for edits that exclude every token of the vocabulary.
absl::Status NoTokenLeft();

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_SEGMENT_OUTPUT_H_
