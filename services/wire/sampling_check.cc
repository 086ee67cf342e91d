#include "services/wire/sampling_check.h"

#include <cmath>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "services/base/invalid_argument.h"

namespace folio::wire {
namespace {

// NaN fails this too.
bool Within(float value, float least, float most) { return value >= least && value <= most; }

absl::Status CheckPenalty(absl::string_view field, float penalty) {
  if (Within(penalty, -kMaxPenalty, kMaxPenalty)) return absl::OkStatus();
  return InvalidArgument(field, " is ", penalty, "; it must be from ", -kMaxPenalty, " to ",
                         kMaxPenalty);
}

absl::Status CheckBiases(const std::vector<LogitBias>& biases) {
  if (biases.size() > kMaxBiases) {
    return InvalidArgument("sampling.logit_bias has ", biases.size(), " tokens, the most is ",
                           kMaxBiases);
  }
  absl::flat_hash_set<uint32_t> seen;
  for (const LogitBias& one : biases) {
    if (!Within(one.bias, -kMaxBias, kMaxBias)) {
      return InvalidArgument("sampling.logit_bias of token ", one.token.value(), " is ", one.bias,
                             "; it must be from ", -kMaxBias, " to ", kMaxBias);
    }
    if (!seen.insert(one.token.value()).second) {
      return InvalidArgument("sampling.logit_bias has token ", one.token.value(), " twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckChanges(const LogitChanges& changes) {
  if (absl::Status s = CheckPenalty("sampling.presence_penalty", changes.presence_penalty);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckPenalty("sampling.frequency_penalty", changes.frequency_penalty);
      !s.ok()) {
    return s;
  }
  if (!Within(changes.repetition_penalty, kLeastRepetitionPenalty, kMostRepetitionPenalty)) {
    return InvalidArgument("sampling.repetition_penalty is ", changes.repetition_penalty,
                           "; it must be from ", kLeastRepetitionPenalty, " to ",
                           kMostRepetitionPenalty, " (1: off)");
  }
  return CheckBiases(changes.biases);
}

}  // namespace

SamplingRecord RecordOf(const SamplingParameters& sampling) {
  return {.temperature = sampling.temperature,
          .top_k = sampling.top_k,
          .top_p = sampling.top_p.value_or(1.0F),
          .min_p = sampling.min_p,
          .seed = sampling.seed.value_or(0),
          .changes = sampling.changes};
}

absl::StatusOr<SamplingRecord> CheckSampling(const SamplingParameters& sampling) {
  SamplingRecord record = RecordOf(sampling);
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
  if (absl::Status status = CheckChanges(record.changes); !status.ok()) return status;
  return record;
}

SamplingParameters ParametersOf(const SamplingRecord& record) {
  return {.temperature = record.temperature,
          .top_k = record.top_k,
          .top_p = record.top_p,
          .min_p = record.min_p,
          .seed = record.seed,
          .changes = record.changes};
}

}  // namespace folio::wire
