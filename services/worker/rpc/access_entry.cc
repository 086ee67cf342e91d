#include "services/worker/rpc/access_entry.h"

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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

bool IsTraceParent(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '-');
  constexpr std::array<size_t, 4> kLengths = {2, 32, 16, 2};
  if (parts.size() != kLengths.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size() != kLengths[i]) return false;
    if (parts[i].find_first_not_of("0123456789abcdef") != absl::string_view::npos) return false;
  }
  const auto zero = [](absl::string_view id) {
    return id.find_first_not_of('0') == absl::string_view::npos;
  };
  return parts[0] != "ff" && !zero(parts[1]) && !zero(parts[2]);
}

AccessEntry::AccessEntry(const AccessLog* log, const grpc::CallbackServerContext& context,
                         AccessedRequest request)
    : log_(log), arrival_(SteadyNow()), asked_(std::move(request.cache)) {
  record_.kind = request.kind;
  if (!*log_) return;
  record_.request_id = Cut(Metadata(context, "x-request-id"));
  const absl::string_view trace = Metadata(context, "traceparent");
  if (IsTraceParent(trace)) record_.traceparent = std::string(trace);
  record_.label = Cut(request.label);
  record_.tenant = Cut(request.tenant);
  record_.peer = context.peer();
  record_.resumed_tokens = request.resumed_tokens;
}

void AccessEntry::OnEvent(const Event& event) {
  if (!*log_) return;
  if (const auto* started = std::get_if<Started>(&event)) {
    started_ = SteadyNow();
    record_.sequence = started->sequence;
    record_.prompt_tokens = started->prompt_tokens;
    cache_ = started->cache.bytes;
  } else if (const auto* chunk = std::get_if<TokenChunk>(&event)) {
    if (record_.kind == RequestKind::kScore || chunk->tokens.empty()) return;
    if (!record_.first_token.has_value()) record_.first_token = SteadyNow() - arrival_;
    record_.generated_tokens += static_cast<uint32_t>(chunk->tokens.size());
  } else if (const auto* finished = std::get_if<Finished>(&event)) {
    reason_ = finished->reason;
  }
}

void AccessEntry::Write() {
  if (!*log_) return;
  const SteadyTime now = SteadyNow();
  record_.queued = started_.value_or(now) - arrival_;
  record_.total = now - arrival_;
  if (started_.has_value()) asked_.ParseFromString(cache_);
  record_.policy = PolicyName(asked_.policy());
  record_.budget = BudgetText(asked_);
  record_.end = EndText(status_, reason_, record_.kind);
  record_.message = Cut(status_.message());
  (*log_)(record_);
}

}  // namespace folio::worker
