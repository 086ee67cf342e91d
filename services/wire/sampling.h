// These functions check sampling parameters and convert them to and from the protocol's message.
// CheckSampling is the only check of them: a worker calls it for a client's request, and the
// manager for what it keeps for failover. All are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_WIRE_SAMPLING_H_
#define FOLIO_SERVICES_WIRE_SAMPLING_H_

#include "absl/status/statusor.h"
#include "folio/v1/types.pb.h"
#include "services/base/sequence_types.h"

namespace folio::wire {

// The parameters with every default filled in. INVALID_ARGUMENT begins with the field's name. A
// seed may be missing only when nothing is sampled (temperature 0), since another worker could not
// continue the sequence without it.
absl::StatusOr<SamplingRecord> CheckSampling(const SamplingParameters& sampling);

SamplingParameters FromProto(const v1::SamplingParams& sampling);
v1::SamplingParams ToProto(const SamplingParameters& sampling);

// A record has every field, so that its parameters have top_p and the seed set.
SamplingParameters ParametersOf(const SamplingRecord& record);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_SAMPLING_H_
