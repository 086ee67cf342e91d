// GatewayFlags is folio-gateway's command line.
#ifndef FOLIO_SERVICES_GATEWAY_FLAGS_H_
#define FOLIO_SERVICES_GATEWAY_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/gateway/api.h"
#include "services/gateway/http/server.h"
#include "services/gateway/workers/worker_set.h"
#include "services/runtime/listen_address.h"
#include "services/tls/certificate.h"
#include "services/tracing/tracer.h"

namespace folio::gateway {

struct GatewayFlags {
  HttpServerOptions http;  // without its handlers
  WorkerSetOptions workers;
  ApiOptions api;        // without its keys
  std::string api_keys;  // a file, or empty for none
  std::string manager;   // its address, or empty for no console
  TlsFiles tls;          // of HTTP
  std::vector<ListenAddress> metrics_listen;
  absl::Duration drain_timeout;
  tracing::TracerOptions traces;
};

// Checks the parsed flags and fills in defaults. INVALID_ARGUMENT names the flag and the fix.
absl::StatusOr<GatewayFlags> ReadFlags();

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_FLAGS_H_
