// These functions convert the protocol's Policy message to a policy's specification and back. The
// source has one row for each policy.
#ifndef FOLIO_SERVICES_MANAGER_POLICY_MESSAGE_H_
#define FOLIO_SERVICES_MANAGER_POLICY_MESSAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "folio/v1/types.pb.h"
#include "services/policy/registry.h"

namespace folio::manager {

// Parameters that are unset get the defaults of services/policy/registry.h; the seed of `random` is
// then `sampling_seed`. INVALID_ARGUMENT if no policy of this version is set.
absl::StatusOr<policy::PolicySpec> PolicyFromProto(const v1::Policy& policy,
                                                   uint64_t sampling_seed);
v1::Policy PolicyToProto(const policy::PolicySpec& spec);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POLICY_MESSAGE_H_
