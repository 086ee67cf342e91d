// TraceMetrics tells Prometheus what became of the spans.
#ifndef FOLIO_SERVICES_TRACING_TRACE_METRICS_H_
#define FOLIO_SERVICES_TRACING_TRACE_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "services/tracing/tracer.h"

namespace folio::tracing {

// Thread-safe.
class TraceMetrics : public prometheus::Collectable {
 public:
  // Borrows the tracer. It may be null, and then all is 0.
  explicit TraceMetrics(const Tracer* tracer) : tracer_(tracer) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Tracer* const tracer_;
};

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_TRACE_METRICS_H_
