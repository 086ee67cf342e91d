// ToRequest turns spans into the message of OTLP, the OpenTelemetry protocol
// (https://opentelemetry.io/docs/specs/otlp/).
#ifndef FOLIO_SERVICES_TRACING_OTLP_MESSAGES_H_
#define FOLIO_SERVICES_TRACING_OTLP_MESSAGES_H_

#include <string>
#include <vector>

#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "services/tracing/span.h"
#include "services/tracing/wall_time.h"

namespace folio::tracing {

// The process that the spans are of.
struct ProcessInfo {
  std::string service;   // "folio-worker"
  std::string version;   // of Folio
  std::string instance;  // an id that no other process has
  std::string host;
  int pid = 0;
};

// This process.
ProcessInfo ThisProcess(std::string service);

opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToRequest(
    const ProcessInfo& process, const std::vector<Span>& spans, const WallTime& clock);

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_OTLP_MESSAGES_H_
