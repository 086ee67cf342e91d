// InvalidArgument makes the error of a check on a value from outside.
#ifndef FOLIO_SERVICES_BASE_INVALID_ARGUMENT_H_
#define FOLIO_SERVICES_BASE_INVALID_ARGUMENT_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace folio {

// INVALID_ARGUMENT with the parts as one message, which names the field and the fix.
template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_INVALID_ARGUMENT_H_
