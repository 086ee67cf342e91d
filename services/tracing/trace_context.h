// TraceContext is a place in a trace, as programs tell it to each other by the fields `traceparent`
// and `tracestate` of the W3C's Trace Context (https://www.w3.org/TR/trace-context/, level 1).
#ifndef FOLIO_SERVICES_TRACING_TRACE_CONTEXT_H_
#define FOLIO_SERVICES_TRACING_TRACE_CONTEXT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::tracing {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

// The names of the fields in HTTP's headers and in gRPC's metadata.
inline constexpr char kTraceParent[] = "traceparent";
inline constexpr char kTraceState[] = "tracestate";
// A longer tracestate is not passed on. The specification asks for no more.
inline constexpr size_t kMostTraceState = 512;

// In a context that was received, the span is the parent of what the receiver does.
struct TraceContext {
  TraceId trace_id = {};
  SpanId span_id = {};
  bool sampled = false;  // the trace is recorded
  std::string state;     // tracestate, or empty
};

// Nothing if `parent` is malformed, and then `state` counts for nothing either. Later versions of
// the format are read as far as this one goes. A state that is too long or has characters that do
// not belong into one is left out.
std::optional<TraceContext> ParseTraceContext(absl::string_view parent,
                                              absl::string_view state = {});
std::string FormatTraceParent(const TraceContext& context);

// The id in lower-case hexadecimal digits, as logs and traces have it.
std::string HexOf(const TraceId& id);

// Ids by chance, which are never zero. Any thread.
TraceId NewTraceId();
SpanId NewSpanId();

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_TRACE_CONTEXT_H_
