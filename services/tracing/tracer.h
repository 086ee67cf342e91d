// Tracer decides which requests are traced, and takes their spans when they have ended.
#ifndef FOLIO_SERVICES_TRACING_TRACER_H_
#define FOLIO_SERVICES_TRACING_TRACER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "services/tracing/otlp_exporter.h"
#include "services/tracing/span.h"
#include "services/tracing/trace_context.h"

namespace folio::tracing {

// Whether a trace that begins here is recorded, with a share from 0 to 1. Programs with the same
// share decide alike, because the id of the trace decides.
bool IsSampled(const TraceId& id, double share);

struct TracerOptions {
  std::string collector;  // gRPC's target, or empty for no traces
  double sample = 1;      // share of the traces that begin here
};

// Thread-safe.
class Tracer {
 public:
  // Null without a collector. `service` is the name of the program. A thread starts, and inherits
  // the signals that are blocked.
  static std::unique_ptr<Tracer> Start(const TracerOptions& options, std::string service);
  Tracer(double sample, ExporterOptions exporter, ProcessInfo process)
      : sample_(sample), exporter_(std::move(exporter), std::move(process)) {}

  // A span that begins. With the context of a caller it belongs to the caller's trace, and is
  // recorded if that is. Otherwise a trace begins.
  SpanContext Begin(const std::optional<TraceContext>& caller) const;
  // The spans of a request that was sampled. Never waits.
  void Record(std::vector<Span> spans) { exporter_.Push(std::move(spans)); }
  // See OtlpExporter. Programs call it at their end.
  void Shutdown(absl::Duration within = absl::Seconds(2)) { exporter_.Shutdown(within); }

  ExportCounts counts() const { return exporter_.counts(); }

 private:
  const double sample_;
  OtlpExporter exporter_;
};

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_TRACER_H_
