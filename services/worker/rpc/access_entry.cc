#include "services/worker/rpc/access_entry.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

std::string Cut(absl::string_view text) {
  if (text.size() <= kMaxAccessText) return std::string(text);
  return absl::StrCat(text.substr(0, kMaxAccessText), "...");
}

// Empty if the client sent none.
absl::string_view Metadata(const grpc::CallbackServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

// The field's name is the policy's.
std::string PolicyName(const v1::Policy& policy) {
  const auto* chosen = v1::Policy::descriptor()->FindFieldByNumber(policy.kind_case());
  return chosen == nullptr ? "full" : std::string(chosen->name());
}

std::string BudgetText(const v1::CacheOptions& cache) {
  if (cache.budget_tokens() > 0) return absl::StrCat(cache.budget_tokens());
  if (cache.budget_share() > 0) return absl::StrCat(100 * cache.budget_share(), "%");
  if (!cache.layer_budget_tokens().empty()) return "by_layer";
  return "0";
}

std::string EndText(const absl::Status& status, FinishReason reason, RequestKind kind) {
  if (!status.ok()) return absl::StatusCodeToString(status.code());
  if (kind == RequestKind::kScore) return "scored";
  switch (reason) {
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kUnspecified:
      break;
  }
  return "unknown";
}

}  // namespace

AccessEntry::AccessEntry(const AccessLog* log, tracing::Tracer* tracer,
                         const grpc::CallbackServerContext& context, AccessedRequest request)
    : log_(log), trace_(tracer, context), asked_(std::move(request.cache)) {
  times_.arrival = SteadyNow();
  record_.kind = request.kind;
  if (off()) return;
  record_.request_id = Cut(Metadata(context, "x-request-id"));
  record_.traceparent = trace_.traceparent();
  record_.trace_id = trace_.trace_id();
  record_.label = Cut(request.label);
  record_.tenant = Cut(request.tenant);
  record_.peer = context.peer();
  record_.resumed_tokens = request.resumed_tokens;
}

void AccessEntry::OnEvent(const Event& event) {
  if (off()) return;
  if (const auto* started = std::get_if<Started>(&event)) {
    times_.started = SteadyNow();
    record_.sequence = started->sequence;
    record_.prompt_tokens = started->prompt_tokens;
    cache_ = started->cache.bytes;
  } else if (const auto* chunk = std::get_if<TokenChunk>(&event)) {
    if (chunk->tokens.empty()) return;
    if (!times_.first_token.has_value()) times_.first_token = SteadyNow();
    if (record_.kind == RequestKind::kScore) return;
    record_.generated_tokens += static_cast<uint32_t>(chunk->tokens.size());
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    reason_ = finished->reason;
  }
}

void AccessEntry::OnEnd(const absl::Status& status) {
  status_ = status;
  if (trace_.recording()) times_.ended = SteadyNow();
}

void AccessEntry::OnAnswer() {
  if (trace_.recording()) times_.answered = SteadyNow();
}

void AccessEntry::Write() {
  if (off()) return;
  // The client has the answer, or is gone.
  const SteadyTime closed = SteadyNow();
  record_.queued = times_.started.value_or(closed) - times_.arrival;
  record_.total = closed - times_.arrival;
  if (times_.first_token.has_value() && record_.kind != RequestKind::kScore) {
    record_.first_token = *times_.first_token - times_.arrival;
  }
  if (times_.started.has_value()) asked_.ParseFromString(cache_);
  record_.policy = PolicyName(asked_.policy());
  record_.budget = BudgetText(asked_);
  record_.end = EndText(status_, reason_, record_.kind);
  record_.message = Cut(status_.message());
  if (*log_) (*log_)(record_);
  if (trace_.recording()) trace_.End(record_, status_, times_);
}

}  // namespace folio::worker
