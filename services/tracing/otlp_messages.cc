#include "services/tracing/otlp_messages.h"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/runtime/version.h"
#include "services/text/utf8.h"

namespace folio::tracing {

namespace otlp = opentelemetry::proto;

namespace {

// Flags of a span. The trace context has the lowest 8 bits.
constexpr uint32_t kSampled = 1, kKnowsIfRemote = 0x100, kIsRemote = 0x200;

template <size_t kBytes>
std::string Bytes(const std::array<uint8_t, kBytes>& id) {
  return {id.begin(), id.end()};
}

// A collector refuses a whole batch for one text that is not UTF-8, and clients send any bytes.
otlp::common::v1::AnyValue ToValue(const AttributeValue& value) {
  otlp::common::v1::AnyValue made;
  std::visit(
      [&made](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>) {
          made.set_string_value(LossyUtf8(held));
        } else if constexpr (std::is_same_v<Held, int64_t>) {
          made.set_int_value(held);
        } else if constexpr (std::is_same_v<Held, double>) {
          made.set_double_value(held);
        } else if constexpr (std::is_same_v<Held, bool>) {
          made.set_bool_value(held);
        } else {
          for (const std::string& one : held) {
            made.mutable_array_value()->add_values()->set_string_value(LossyUtf8(one));
          }
        }
      },
      value);
  return made;
}

template <typename Message>
void AddAttribute(const char* key, const AttributeValue& value, Message* message) {
  otlp::common::v1::KeyValue* added = message->add_attributes();
  added->set_key(key);
  *added->mutable_value() = ToValue(value);
}

uint32_t FlagsOf(const SpanContext& context) {
  uint32_t flags = kKnowsIfRemote;
  if (context.own.sampled) flags |= kSampled;
  if (context.parent_is_remote) flags |= kIsRemote;
  return flags;
}

void Fill(const Span& span, const WallTime& clock, otlp::trace::v1::Span* message) {
  message->set_trace_id(Bytes(span.context.own.trace_id));
  message->set_span_id(Bytes(span.context.own.span_id));
  if (span.context.parent.has_value()) message->set_parent_span_id(Bytes(*span.context.parent));
  message->set_trace_state(span.context.own.state);
  message->set_flags(FlagsOf(span.context));
  message->set_name(span.name);
  message->set_kind(span.kind == SpanKind::kServer ? otlp::trace::v1::Span::SPAN_KIND_SERVER
                                                   : otlp::trace::v1::Span::SPAN_KIND_INTERNAL);
  message->set_start_time_unix_nano(clock.Nanos(span.start));
  message->set_end_time_unix_nano(clock.Nanos(span.end));
  for (const Attribute& one : span.attributes) AddAttribute(one.key, one.value, message);
  for (const SpanEvent& event : span.events) {
    otlp::trace::v1::Span::Event* added = message->add_events();
    added->set_name(event.name);
    added->set_time_unix_nano(clock.Nanos(event.time));
  }
  message->set_dropped_events_count(span.dropped_events);
  if (!span.error.has_value()) return;
  message->mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
  message->mutable_status()->set_message(LossyUtf8(*span.error));
}

}  // namespace

ProcessInfo ThisProcess(std::string service) {
  std::array<char, HOST_NAME_MAX + 1> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return {.service = std::move(service),
          .version = Version(),
          .instance = HexOf(NewTraceId()),
          .host = host.data(),
          .pid = getpid()};
}

otlp::collector::trace::v1::ExportTraceServiceRequest ToRequest(const ProcessInfo& process,
                                                                const std::vector<Span>& spans,
                                                                const WallTime& clock) {
  otlp::collector::trace::v1::ExportTraceServiceRequest request;
  otlp::trace::v1::ResourceSpans* all = request.add_resource_spans();
  AddAttribute("service.name", process.service, all->mutable_resource());
  AddAttribute("service.version", process.version, all->mutable_resource());
  AddAttribute("service.instance.id", process.instance, all->mutable_resource());
  AddAttribute("host.name", process.host, all->mutable_resource());
  AddAttribute("process.pid", int64_t{process.pid}, all->mutable_resource());
  otlp::trace::v1::ScopeSpans* scope = all->add_scope_spans();
  scope->mutable_scope()->set_name("folio");
  scope->mutable_scope()->set_version(process.version);
  for (const Span& span : spans) Fill(span, clock, scope->add_spans());
  return request;
}

}  // namespace folio::tracing
