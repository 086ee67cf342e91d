// The endpoints that generate text.
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/api.h"
#include "services/gateway/openai/json_text.h"

namespace folio::gateway {
namespace {

constexpr size_t kMostSession = 256;  // bytes that count
// Prompts that begin with the same so many bytes belong together.
constexpr size_t kPrefixBytes = 1024;

std::string PrefixOf(const v1::Input& input) {
  std::string prefix;
  if (input.has_text()) prefix = input.text().substr(0, kPrefixBytes);
  for (const uint32_t id : input.tokens().ids()) {
    if (prefix.size() >= kPrefixBytes) break;
    absl::StrAppend(&prefix, id, ",");
  }
  for (const v1::ChatMessage& message : input.chat().messages()) {
    if (prefix.size() >= kPrefixBytes) break;
    absl::StrAppend(&prefix, message.role(), "\n", message.content().substr(0, kPrefixBytes));
  }
  return prefix;
}

}  // namespace

std::string Api::KeyOf(const Call& call, const HttpRequest& http) const {
  if (options_.affinity == Affinity::kNone) return "";
  const absl::string_view session =
      call.session.empty() ? http.Field("x-session-id") : absl::string_view(call.session);
  if (!session.empty()) return absl::StrCat("session ", session.substr(0, kMostSession));
  if (options_.affinity == Affinity::kSession) return "";
  return absl::StrCat("prefix ", PrefixOf(call.choices.front().input()));
}

void Api::Generate(Request request, bool chat) {
  if (draining_) return request->Fail(absl::UnavailableError("This gateway is shutting down."));
  const auto body = ParseObject(request->http().body);
  if (!body.ok()) return request->Fail(body.status());
  auto call = chat ? ReadChat(*body) : ReadCompletion(*body);
  if (!call.ok()) return request->Fail(call.status());
  request->record.model = call->model;
  request->record.stream = call->stream;
  auto lease = workers_->Choose(call->model, KeyOf(*call, request->http()),
                                static_cast<uint32_t>(call->choices.size()));
  if (!lease.ok()) return request->Fail(ModelError(lease.status()));
  request->record.choices = call->choices.size();
  request->record.worker = workers_->Address(lease->worker());
  if (call->model.empty()) call->model = workers_->ModelName(lease->worker());
  for (v1::GenerateRequest& choice : call->choices) choice.set_tenant(request->record.tenant);
  const auto generation =
      std::make_shared<Generation>(workers_, metrics_, std::move(request), *std::move(call),
                                   *std::move(lease), [this](Generation* ended) { Forget(ended); });
  {
    const absl::MutexLock lock(&mutex_);
    generations_[generation.get()] = generation;
  }
  generation->Start(options_.resume, options_.replay);
}

}  // namespace folio::gateway
