// This header reads the flags --otlp_endpoint and --trace_sample, which a worker and a gateway
// have.
#ifndef FOLIO_SERVICES_TRACING_TRACE_FLAGS_H_
#define FOLIO_SERVICES_TRACING_TRACE_FLAGS_H_

#include "absl/status/status.h"
#include "services/tracing/tracer.h"

namespace folio::tracing {

// Fills in the options, without a collector if no endpoint is given. INVALID_ARGUMENT names the
// flag and the fix.
absl::Status ReadTraceFlags(TracerOptions* options);

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_TRACE_FLAGS_H_
