#include "services/worker/rpc/request_trace.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/worker/rpc/access_entry.h"

namespace folio::worker {
namespace {

using tracing::ChildOf;
using tracing::Span;
using tracing::SpanContext;

// Its first 55 bytes say the same in each version of the format.
constexpr size_t kTraceParentBytes = 55;

// Empty unless the client sent just one.
absl::string_view OneValue(const grpc::CallbackServerContext& context, const char* key) {
  const auto [first, end] = context.client_metadata().equal_range(key);
  if (first == end || std::next(first) != end) return {};
  return {first->second.data(), first->second.size()};
}

// As OpenTelemetry's conventions for gRPC have it. The other codes are mistakes of clients.
bool IsFault(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

Span PlanSpan(const SpanContext& parent, const SequenceTrace::Plan& plan, SteadyTime end) {
  const SteadyTime start = plan.asked.value_or(plan.received);
  Span span = ChildOf(parent, "plan", start, plan.done.value_or(std::max(end, plan.received)));
  span.AddText("folio.plan.kind", plan.compaction ? "compaction" : "drop");
  span.Add("folio.plan.epoch", static_cast<int64_t>(plan.epoch.value()));
  span.Add("folio.plan.freed_pages", int64_t{plan.freed_pages});
  // It was parked before, or ended.
  if (!plan.done.has_value()) span.Add("folio.plan.given_up", true);
  span.events.push_back({plan.received, "received"});
  return span;
}

void AddPlans(const SequenceTrace::Notes& notes, SteadyTime end, Span* call,
              std::vector<Span>* spans) {
  for (const SequenceTrace::Plan& plan : notes.plans) {
    spans->push_back(PlanSpan(call->context, plan, end));
    // One that is carried out while the pages go back would end after the call.
    spans->back().end = std::min(spans->back().end, call->end);
  }
  for (const SequenceTrace::Park& park : notes.parks) {
    call->events.push_back({park.time, park.parked ? "parked" : "unparked"});
  }
  call->dropped_events = notes.all_parks - static_cast<uint32_t>(notes.parks.size());
  call->Add("folio.plans", int64_t{notes.all_plans});
}

// From the arrival on, as far as the call came.
void AddPhases(const CallTimes& times, SteadyTime end, const SpanContext& call,
               std::vector<Span>* spans) {
  spans->push_back(ChildOf(call, "queue", times.arrival, times.started.value_or(end)));
  if (!times.started.has_value()) return;
  spans->push_back(ChildOf(call, "prefill", *times.started, times.first_token.value_or(end)));
  if (!times.first_token.has_value()) return;
  spans->push_back(ChildOf(call, "decode", *times.first_token, end));
}

void Describe(const AccessRecord& record, const absl::Status& status, Span* call) {
  call->AddText("rpc.system", "grpc");
  call->AddText("rpc.service", "folio.v1.Inference");
  call->AddText("rpc.method", record.kind == RequestKind::kScore ? "Score" : "Generate");
  call->Add("rpc.grpc.status_code", static_cast<int64_t>(status.code()));
  call->AddText("client.address", record.peer);
  call->AddText("folio.request_id", record.request_id);
  call->AddText("folio.label", record.label);
  call->AddText("folio.tenant", record.tenant);
  call->AddText("folio.policy", record.policy);
  call->AddText("folio.budget", record.budget);
  if (record.sequence != SequenceId()) {
    call->Add("folio.sequence", static_cast<int64_t>(record.sequence.value()));
    call->Add("gen_ai.usage.input_tokens", int64_t{record.prompt_tokens});
    call->Add("gen_ai.usage.output_tokens", int64_t{record.generated_tokens});
  }
  if (record.kind == RequestKind::kResume || record.kind == RequestKind::kReplay) {
    call->Add("folio.resumed_tokens", int64_t{record.resumed_tokens});
  }
  if (record.unread) call->Add("folio.unread", true);
  if (status.ok()) {
    call->Add("gen_ai.response.finish_reasons", std::vector<std::string>{record.end});
    return;
  }
  call->AddText("error.type", record.end);
  if (IsFault(status.code())) call->error = record.message;
}

}  // namespace

RequestTrace::RequestTrace(tracing::Tracer* tracer, const grpc::CallbackServerContext& context)
    : tracer_(tracer) {
  const absl::string_view parent = OneValue(context, tracing::kTraceParent);
  const auto caller = tracing::ParseTraceContext(parent, OneValue(context, tracing::kTraceState));
  if (caller.has_value()) {
    traceparent_ = std::string(parent.substr(0, kTraceParentBytes));
    trace_id_ = tracing::HexOf(caller->trace_id);
  }
  if (tracer_ == nullptr) return;
  context_ = tracer_->Begin(caller);
  trace_id_ = tracing::HexOf(context_.own.trace_id);
  if (context_.own.sampled) notes_ = std::make_shared<SequenceTrace>();
}

void RequestTrace::End(const AccessRecord& record, const absl::Status& status,
                       const CallTimes& times) const {
  const SteadyTime end = times.ended.value_or(times.answered);
  std::vector<Span> spans(1);
  Span call;
  call.context = context_;
  call.name = record.kind == RequestKind::kScore ? "folio.v1.Inference/Score"
                                                 : "folio.v1.Inference/Generate";
  call.kind = tracing::SpanKind::kServer;
  call.start = times.arrival;
  // Its caller's span ends with the status, which gRPC may send before it tells this process.
  call.end = times.answered;
  Describe(record, status, &call);
  AddPhases(times, end, context_, &spans);
  AddPlans(notes_->notes(), end, &call, &spans);
  spans.front() = std::move(call);
  tracer_->Record(std::move(spans));
}

}  // namespace folio::worker
