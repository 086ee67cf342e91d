#include "services/wire/sampling_check.h"

#include <cmath>

#include "services/base/invalid_argument.h"

namespace folio::wire {

absl::StatusOr<SamplingRecord> CheckSampling(const SamplingParameters& sampling) {
  const SamplingRecord record = {.temperature = sampling.temperature,
                                 .top_k = sampling.top_k,
                                 .top_p = sampling.top_p.value_or(1.0F),
                                 .min_p = sampling.min_p,
                                 .seed = sampling.seed.value_or(0)};
  // The comparisons are written so that NaN fails too.
  if (!(record.temperature >= 0) || std::isinf(record.temperature)) {
    return InvalidArgument("sampling.temperature is ", record.temperature,
                           "; it must be a finite number that is at least 0 (0: greedy)");
  }
  if (!(record.top_p > 0 && record.top_p <= 1)) {
    return InvalidArgument("sampling.top_p is ", record.top_p,
                           "; it must be above 0 and at most 1");
  }
  if (!(record.min_p >= 0 && record.min_p <= 1)) {
    return InvalidArgument("sampling.min_p is ", record.min_p, "; it must be from 0 to 1");
  }
  if (record.temperature > 0 && !sampling.seed.has_value()) {
    return InvalidArgument(
        "sampling.seed must be set when temperature is above 0, so that another worker can "
        "continue the sequence");
  }
  return record;
}

SamplingParameters ParametersOf(const SamplingRecord& record) {
  return {.temperature = record.temperature,
          .top_k = record.top_k,
          .top_p = record.top_p,
          .min_p = record.min_p,
          .seed = record.seed};
}

}  // namespace folio::wire
