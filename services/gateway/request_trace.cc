#include "services/gateway/request_trace.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace folio::gateway {
namespace {

// OpenTelemetry's conventions call others _OTHER, because a client may send any word.
constexpr std::array<absl::string_view, 9> kMethods = {
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};

std::optional<tracing::TraceContext> ReadContext(const HttpRequest& http) {
  absl::string_view parent;
  std::string state;
  for (const auto& [name, value] : http.fields) {
    if (absl::EqualsIgnoreCase(name, tracing::kTraceParent)) {
      if (!parent.empty()) return std::nullopt;  // one of them is wrong
      parent = value;
    } else if (absl::EqualsIgnoreCase(name, tracing::kTraceState)) {
      absl::StrAppend(&state, state.empty() ? "" : ",", value);
    }
  }
  return tracing::ParseTraceContext(parent, state);
}

const char* OperationOf(const RequestRecord& record) {
  if (record.endpoint == "/v1/chat/completions") return "chat";
  return record.endpoint == "/v1/completions" ? "text_completion" : "";
}

void DescribeHttp(const HttpRequest& http, const RequestRecord& record, tracing::Span* span) {
  const bool known = std::find(kMethods.begin(), kMethods.end(), http.method) != kMethods.end();
  const bool routed = record.endpoint != "other";
  span->name = known ? http.method : "HTTP";
  if (routed) absl::StrAppend(&span->name, " ", record.endpoint);
  span->AddText("http.request.method", known ? absl::string_view(http.method) : "_OTHER");
  if (!known) span->AddText("http.request.method_original", http.method);
  if (routed) span->AddText("http.route", record.endpoint);
  span->AddText("url.path", http.path);
  span->AddText("client.address", http.peer);
  span->AddText("user_agent.original", http.Field("User-Agent"));
  span->Add("http.response.status_code", int64_t{record.status});
  span->AddText("folio.request_id", record.request_id);
  span->AddText("folio.tenant", record.tenant);
}

void DescribeText(const RequestRecord& record, SteadyTime arrival, tracing::Span* span) {
  span->AddText("gen_ai.operation.name", OperationOf(record));
  span->AddText("gen_ai.request.model", record.model);
  if (record.choices == 0) return;
  span->Add("gen_ai.request.choice.count", static_cast<int64_t>(record.choices));
  span->Add("gen_ai.usage.input_tokens", static_cast<int64_t>(record.prompt_tokens));
  span->Add("gen_ai.usage.output_tokens", static_cast<int64_t>(record.generated_tokens));
  span->AddText("folio.worker", record.worker);
  span->Add("folio.stream", record.stream);
  span->Add("folio.resumed", int64_t{record.resumed});
  span->Add("folio.replayed", int64_t{record.replayed});
  if (record.first_token.has_value()) {
    span->events.push_back({arrival + *record.first_token, "first_token"});
  }
}

}  // namespace

RequestTrace::RequestTrace(tracing::Tracer* tracer, const HttpRequest& http) : tracer_(tracer) {
  const std::optional<tracing::TraceContext> caller = ReadContext(http);
  exists_ = tracer != nullptr || caller.has_value();
  if (tracer != nullptr) {
    context_ = tracer->Begin(caller);
  } else if (caller.has_value()) {
    context_.own = *caller;
  }
}

std::string RequestTrace::trace_id() const {
  return exists_ ? tracing::HexOf(context_.own.trace_id) : "";
}

void RequestTrace::AddTo(std::vector<std::pair<std::string, std::string>>* metadata) const {
  if (!exists_) return;
  metadata->emplace_back(tracing::kTraceParent, tracing::FormatTraceParent(context_.own));
  if (context_.own.state.empty()) return;
  metadata->emplace_back(tracing::kTraceState, context_.own.state);
}

void RequestTrace::End(const HttpRequest& http, const RequestRecord& record,
                       SteadyTime arrival) const {
  if (tracer_ == nullptr || !context_.own.sampled) return;
  // None of them is worth a trace of its own.
  if (IsProbe(record) && !context_.parent.has_value()) return;
  std::vector<tracing::Span> spans(1);
  tracing::Span& span = spans.front();
  span.context = context_;
  span.kind = tracing::SpanKind::kServer;
  span.start = arrival;
  span.end = arrival + record.total;
  DescribeHttp(http, record, &span);
  DescribeText(record, arrival, &span);
  // A mistake of a client is not a fault of the server, and a stream may fail after its status was
  // sent.
  if (record.status >= 500) {
    span.AddText("error.type", absl::StrCat(record.status));
    span.error = record.reason;
  } else if (record.status == 200 && !record.reason.empty()) {
    span.AddText("error.type", "stream_failed");
    span.error = record.reason;
  }
  tracer_->Record(std::move(spans));
}

}  // namespace folio::gateway
