#include "services/tracing/trace_flags.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "services/runtime/flags.h"
#include "services/runtime/listen_address.h"

ABSL_FLAG(std::string, otlp_endpoint, "",
          "address of an OpenTelemetry collector that takes traces by OTLP over gRPC without "
          "encryption, host:port or unix:/path, such as 127.0.0.1:4317; if empty, there are none");
ABSL_FLAG(double, trace_sample, 1,
          "share of the requests that are traced, from 0 to 1, such as 0.01. A request whose "
          "client sends a traceparent is traced if that says so");

namespace folio::tracing {

absl::Status ReadTraceFlags(TracerOptions* options) {
  options->sample = absl::GetFlag(FLAGS_trace_sample);
  if (!(options->sample >= 0 && options->sample <= 1)) {
    return BadFlag("trace_sample", absl::StrCat(options->sample), "must be from 0 to 1");
  }
  const std::string endpoint = absl::GetFlag(FLAGS_otlp_endpoint);
  if (endpoint.empty()) return absl::OkStatus();
  const auto parsed = ParseListenAddress(endpoint);
  if (!parsed.ok()) return BadFlag("otlp_endpoint", endpoint, parsed.status().message());
  if (!parsed->is_unix() && parsed->port == 0) {
    return BadFlag("otlp_endpoint", endpoint, "needs the port of the collector, mostly 4317");
  }
  options->collector = parsed->ToString();
  return absl::OkStatus();
}

}  // namespace folio::tracing
