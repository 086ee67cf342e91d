// These functions convert sampling parameters to and from the protocol's message. All are pure and
// may be called from any thread.
#ifndef FOLIO_SERVICES_WIRE_SAMPLING_H_
#define FOLIO_SERVICES_WIRE_SAMPLING_H_

#include "folio/v1/types.pb.h"
#include "services/base/sequence_types.h"
#include "services/wire/sampling_check.h"

namespace folio::wire {

SamplingParameters FromProto(const v1::SamplingParams& sampling);
v1::SamplingParams ToProto(const SamplingParameters& sampling);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_SAMPLING_H_
