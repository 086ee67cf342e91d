#include "services/model/executor/segment_output.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/executor/sampler.h"

namespace folio::model {

absl::Status NotFinite(Position next) {
  return absl::DataLossError(absl::StrCat(
      "the model computed a number that is not finite for this sequence, at position ",
      next.value() - 1,
      ", because its pages are damaged or its input makes the model overflow; ask again from the "
      "start"));
}

absl::Status NoTokenLeft() {
  return absl::FailedPreconditionError(
      "no token is left to sample, because format, min_tokens and logit_bias exclude all of them");
}

void FillOutput(const StepSegment& segment, Position next, TokenId last,
                absl::Span<const float> logits, SegmentOutput& output) {
  output.slot = segment.slot;
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    output.status = NotFinite(next);
    return;
  }
  if (segment.target.has_value()) {
    output.token = *segment.target;
  } else if (segment.edits.any()) {
    const std::vector<float> edited = EditLogits(logits, segment.edits, last);
    output.token = Sample(edited, segment.sampling, next);
    if (std::isinf(edited[output.token.value()])) {
      output.status = NoTokenLeft();
      return;
    }
  } else {
    output.token = Sample(logits, segment.sampling, next);
  }
  if (segment.top_logprobs >= 0) {
    const double log_sum = LogSumExp(logits);
    output.logprob = static_cast<float>(logits[output.token.value()] - log_sum);
    output.top = TopLogprobs(logits, log_sum, segment.top_logprobs);
  }
}

}  // namespace folio::model
