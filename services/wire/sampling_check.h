// CheckSampling is the only check of sampling parameters. A worker calls it for a client's request
// and for the record of a sequence that it claims, and the manager for what it keeps for failover.
//
// This header needs no protobuf, because the worker's step loop includes it. All functions are pure
// and may be called from any thread.
#ifndef FOLIO_SERVICES_WIRE_SAMPLING_CHECK_H_
#define FOLIO_SERVICES_WIRE_SAMPLING_CHECK_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "services/base/sequence_types.h"

namespace folio::wire {

// The range of presence and frequency penalties is from -kMaxPenalty to kMaxPenalty, as in OpenAI's
// API, and that of biases likewise.
inline constexpr float kMaxPenalty = 2;
inline constexpr float kMaxBias = 100;
inline constexpr float kLeastRepetitionPenalty = 0.01F;
inline constexpr float kMostRepetitionPenalty = 100;
inline constexpr size_t kMaxBiases = 1024;

// The parameters with every default filled in, unchecked.
SamplingRecord RecordOf(const SamplingParameters& sampling);

// The same, checked. INVALID_ARGUMENT begins with the field's name. A
// seed may be missing only when nothing is sampled (temperature 0), since another worker could not
// continue the sequence without it.
absl::StatusOr<SamplingRecord> CheckSampling(const SamplingParameters& sampling);

// A record has every field, so that its parameters have top_p and the seed set.
SamplingParameters ParametersOf(const SamplingRecord& record);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_SAMPLING_CHECK_H_
