// CheckWindow checks parameters that several policies have in common.
#ifndef FOLIO_SERVICES_POLICY_PARAMETERS_H_
#define FOLIO_SERVICES_POLICY_PARAMETERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace folio::policy {

// INVALID_ARGUMENT unless at least one of the prompt's queries looks back and `pool` is odd and at
// most 127. `policy` names the policy in the error.
absl::Status CheckWindow(absl::string_view policy, uint32_t window, uint32_t pool);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_PARAMETERS_H_
