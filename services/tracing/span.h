// A Span is a piece of work that has ended, as a plain value: what it was, when it began and ended,
// and which span it is a part of.
#ifndef FOLIO_SERVICES_TRACING_SPAN_H_
#define FOLIO_SERVICES_TRACING_SPAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/base/steady_time.h"
#include "services/tracing/trace_context.h"

namespace folio::tracing {

// Texts of clients in a span are cut to so many bytes.
inline constexpr size_t kMostText = 200;

using AttributeValue = std::variant<std::string, int64_t, double, bool, std::vector<std::string>>;

// Keys and names of events are constants of the program.
struct Attribute {
  const char* key = nullptr;
  AttributeValue value;
};

struct SpanEvent {
  SteadyTime time;
  const char* name = nullptr;
};

enum class SpanKind : uint8_t { kInternal, kServer };

// SpanContext is a span that runs: its place in the trace, and what it is a part of.
struct SpanContext {
  TraceContext own;
  std::optional<SpanId> parent;  // none for the first span of a trace
  bool parent_is_remote = false;
};

struct Span {
  SpanContext context;
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  SteadyTime start, end;
  std::vector<Attribute> attributes;
  std::vector<SpanEvent> events;
  uint32_t dropped_events = 0;
  std::optional<std::string> error;  // why the work failed, if it did

  // Leaves out texts that are empty, and cuts those that are too long.
  void AddText(const char* key, absl::string_view text) {
    if (!text.empty()) attributes.push_back({key, std::string(text.substr(0, kMostText))});
  }
  void Add(const char* key, AttributeValue value) { attributes.push_back({key, std::move(value)}); }
};

// A new part of a span, in the same process.
inline Span ChildOf(const SpanContext& parent, std::string name, SteadyTime start, SteadyTime end) {
  Span child;
  child.context.own = parent.own;
  child.context.own.span_id = NewSpanId();
  child.context.parent = parent.own.span_id;
  child.name = std::move(name);
  child.start = start;
  child.end = end;
  return child;
}

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_SPAN_H_
