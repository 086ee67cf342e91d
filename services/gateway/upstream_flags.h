// ReadUpstreamFlags reads the flags that say which workers and which manager a gateway asks, and
// how it connects to them.
#ifndef FOLIO_SERVICES_GATEWAY_UPSTREAM_FLAGS_H_
#define FOLIO_SERVICES_GATEWAY_UPSTREAM_FLAGS_H_

#include "absl/status/status.h"
#include "services/gateway/flags.h"

namespace folio::gateway {

// INVALID_ARGUMENT names the flag and the fix. Files are not read.
absl::Status ReadUpstreamFlags(GatewayFlags* flags);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_UPSTREAM_FLAGS_H_
