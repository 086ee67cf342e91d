// CheckTextSize refuses a text of a request that is longer than the manager keeps.
#ifndef FOLIO_SERVICES_MANAGER_TEXT_SIZE_H_
#define FOLIO_SERVICES_MANAGER_TEXT_SIZE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/base/invalid_argument.h"

namespace folio::manager {

// INVALID_ARGUMENT names the field and both sizes, in bytes.
inline absl::Status CheckTextSize(absl::string_view field, absl::string_view text, size_t most) {
  if (text.size() <= most) return absl::OkStatus();
  return InvalidArgument(field, ": has ", text.size(), " bytes; at most ", most);
}

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_TEXT_SIZE_H_
