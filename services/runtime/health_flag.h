// This header reads the flag --health_listen, which both daemons have.
#ifndef FOLIO_SERVICES_RUNTIME_HEALTH_FLAG_H_
#define FOLIO_SERVICES_RUNTIME_HEALTH_FLAG_H_

#include <vector>

#include "absl/status/statusor.h"
#include "services/runtime/listen_address.h"

namespace folio {

// Empty if the flag is. INVALID_ARGUMENT names the flag and the fix for an address that is wrong or
// is one of `taken`, the addresses of --listen.
absl::StatusOr<std::vector<ListenAddress>> ReadHealthListen(
    const std::vector<ListenAddress>& taken);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_HEALTH_FLAG_H_
