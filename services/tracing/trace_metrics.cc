#include "services/tracing/trace_metrics.h"

#include "services/metrics/families.h"

namespace folio::tracing {

std::vector<prometheus::MetricFamily> TraceMetrics::Collect() const {
  const ExportCounts counts = tracer_ == nullptr ? ExportCounts() : tracer_->counts();
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  return {metrics::CounterFamily("folio:trace_spans_exported_total",
                                 "Spans of traces that the collector has taken.",
                                 {{number(counts.exported), {}}}),
          metrics::CounterFamily("folio:trace_spans_dropped_total",
                                 "Spans of traces that were dropped, by reason.",
                                 {{number(counts.queue_full), {{"reason", "queue_full"}}},
                                  {number(counts.failed), {{"reason", "export_failed"}}},
                                  {number(counts.rejected), {{"reason", "rejected"}}}}),
          metrics::CounterFamily("folio:trace_export_failures_total",
                                 "Calls to the collector of traces that failed.",
                                 {{number(counts.failed_calls), {}}})};
}

}  // namespace folio::tracing
