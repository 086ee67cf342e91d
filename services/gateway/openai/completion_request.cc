// A request of /v1/completions.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/gateway/openai/call.h"
#include "services/gateway/openai/common_fields.h"

namespace folio::gateway {
namespace {

constexpr uint32_t kDefaultTokens = 16;  // OpenAI's

bool IsTokens(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_number();
}

// One prompt: a text or token ids.
void ReadPrompt(const Json& value, const std::string& at, FieldReader& fields, v1::Input* input) {
  if (value.is_string()) {
    if (value.get_ref<const std::string&>().empty()) fields.Fail(at, "may not be empty");
    input->set_text(value.get<std::string>());
    return;
  }
  if (!IsTokens(value)) {
    return fields.Fail(at, "must be a string, a list of token ids, or a list of those");
  }
  const std::vector<uint32_t> tokens = fields.TokensOf(value, at);
  input->mutable_tokens()->mutable_ids()->Add(tokens.begin(), tokens.end());
}

std::vector<v1::Input> ReadPrompts(FieldReader& fields) {
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.Fail("prompt", "is required");
    return {};
  }
  std::vector<v1::Input> inputs;
  if (!prompt->is_array() || IsTokens(*prompt)) {
    ReadPrompt(*prompt, "prompt", fields, &inputs.emplace_back());
    return inputs;
  }
  if (prompt->empty() || prompt->size() > static_cast<size_t>(kMostChoices)) {
    fields.Fail("prompt", absl::StrCat("must be 1 to ", kMostChoices, " prompts"));
    return {};
  }
  for (size_t i = 0; i < prompt->size(); ++i) {
    ReadPrompt((*prompt)[i], absl::StrCat("prompt[", i, "]"), fields, &inputs.emplace_back());
  }
  return inputs;
}

}  // namespace

absl::StatusOr<Call> ReadCompletion(const Json& body) {
  Call call;
  FieldReader fields(body);
  v1::GenerateRequest request;
  std::vector<v1::Input> prompts = ReadPrompts(fields);
  const int64_t n = ReadCommon(fields, &call, &request);
  if (request.max_tokens() == 0) request.set_max_tokens(kDefaultTokens);
  if (const auto top = fields.Integer("logprobs", 0, kMostTop); top.has_value()) {
    call.top_logprobs = static_cast<uint32_t>(*top);
    request.set_logprobs(*call.top_logprobs);
  }
  if (!fields.Bool("add_special_tokens").value_or(true)) {
    fields.Fail("add_special_tokens", "may not be false; give token ids instead");
  }
  if (n * static_cast<int64_t>(prompts.size()) > kMostChoices) {
    fields.Fail("n", absl::StrCat("times the number of prompts may be at most ", kMostChoices));
  }
  if (!fields.status().ok()) return fields.status();
  for (v1::Input& prompt : prompts) {
    *request.mutable_input() = std::move(prompt);
    if (absl::Status status = AddChoices(request, n, &call); !status.ok()) return status;
  }
  return call;
}

}  // namespace folio::gateway
