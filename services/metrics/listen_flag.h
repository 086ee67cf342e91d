// This header reads the flag --metrics_listen, which both daemons have.
#ifndef FOLIO_SERVICES_METRICS_LISTEN_FLAG_H_
#define FOLIO_SERVICES_METRICS_LISTEN_FLAG_H_

#include <vector>

#include "absl/status/statusor.h"
#include "services/runtime/listen_address.h"

namespace folio::metrics {

// Empty if the flag is. INVALID_ARGUMENT names the flag and the fix for an address that is wrong,
// is a Unix socket, or is one of `taken`, the addresses that the daemon serves gRPC on.
absl::StatusOr<std::vector<ListenAddress>> ReadMetricsListen(
    const std::vector<ListenAddress>& taken);

}  // namespace folio::metrics

#endif  // FOLIO_SERVICES_METRICS_LISTEN_FLAG_H_
