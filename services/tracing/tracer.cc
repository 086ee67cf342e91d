#include "services/tracing/tracer.h"

#include <cmath>
#include <cstdint>

#include "services/runtime/logging.h"

namespace folio::tracing {

bool IsSampled(const TraceId& id, double share) {
  if (share >= 1) return true;
  // The last 7 bytes are by chance in each version of the specification.
  constexpr size_t kRandomBytes = 7;
  uint64_t number = 0;
  for (size_t i = id.size() - kRandomBytes; i < id.size(); ++i) number = number << 8 | id[i];
  return static_cast<double>(number) < share * std::ldexp(1, 8 * kRandomBytes);
}

std::unique_ptr<Tracer> Tracer::Start(const TracerOptions& options, std::string service) {
  if (options.collector.empty()) return nullptr;
  ExporterOptions exporter;
  exporter.collector = options.collector;
  ProcessInfo process = ThisProcess(std::move(service));
  log::Info("traces are exported", {{"collector", options.collector},
                                    {"sample", options.sample},
                                    {"instance", process.instance}});
  return std::make_unique<Tracer>(options.sample, std::move(exporter), std::move(process));
}

SpanContext Tracer::Begin(const std::optional<TraceContext>& caller) const {
  SpanContext context;
  if (caller.has_value()) {
    context.own = *caller;
    context.parent = caller->span_id;
    context.parent_is_remote = true;
  } else {
    context.own.trace_id = NewTraceId();
    context.own.sampled = IsSampled(context.own.trace_id, sample_);
  }
  context.own.span_id = NewSpanId();
  return context;
}

}  // namespace folio::tracing
