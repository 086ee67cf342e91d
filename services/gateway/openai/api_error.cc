#include "services/gateway/openai/api_error.h"

#include <array>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/openai/json_text.h"
#include "services/text/utf8.h"

namespace folio::gateway {
namespace {

constexpr char kParam[] = "folio.param";

struct Kind {
  int http;
  const char* type;
  int retry_after = 0;
};

Kind KindOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return {400, "invalid_request_error"};
    case absl::StatusCode::kUnauthenticated:
      // The worker does not know the gateway, whose own clients are told apart before they ask it.
      return {502, "server_error"};
    case absl::StatusCode::kPermissionDenied:
      return {403, "permission_error"};
    case absl::StatusCode::kNotFound:
      return {404, "invalid_request_error"};
    case absl::StatusCode::kResourceExhausted:
      return {429, "rate_limit_error", 1};
    case absl::StatusCode::kCancelled:
      return {499, "cancelled_error"};
    case absl::StatusCode::kUnimplemented:
      return {501, "invalid_request_error"};
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
      return {503, "service_unavailable_error", 1};
    case absl::StatusCode::kDeadlineExceeded:
      return {504, "timeout_error"};
    default:
      return {500, "server_error"};
  }
}

// The protocol's names, and those of the fields that they are made of.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 7> kNames = {{
    {"input.chat.", ""},
    {"input.tokens.ids", "prompt"},
    {"input.text", "prompt"},
    {"input", "prompt"},
    {"sampling.", ""},
    {"ids", "tokens"},
    {"format", "response_format"},
}};

// A worker's message begins with the field that it is about: "sampling.top_p is 2; it must ...".
std::string ParamOf(absl::string_view message) {
  absl::string_view field = message.substr(0, message.find_first_of(" :"));
  const auto is_part = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           absl::StrContains("_.[]", absl::string_view(&c, 1));
  };
  for (const char c : field) {
    if (!is_part(c)) return "";
  }
  // A worker's other messages begin with a word, and an article or a verb follows.
  if (field.size() == message.size()) return "";
  for (const auto& [from, to] : kNames) {
    if (absl::ConsumePrefix(&field, from)) return absl::StrCat(to, field);
  }
  static constexpr absl::string_view kFields[] = {
      "max_tokens", "stop",   "logprobs", "min_tokens",     "stop_token_ids",
      "priority",   "tenant", "cache",    "response_format"};
  for (const absl::string_view known : kFields) {
    if (field == known || absl::StartsWith(field, absl::StrCat(known, "[")) ||
        absl::StartsWith(field, absl::StrCat(known, "."))) {
      return std::string(field);
    }
  }
  return field == "label" ? "user" : "";
}

}  // namespace

absl::Status FieldError(absl::string_view param, absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kParam, absl::Cord(param));
  return status;
}

ApiError ErrorOf(const absl::Status& status) {
  const Kind kind = KindOf(status.code());
  ApiError error = {.http = kind.http,
                    .type = kind.type,
                    .code = "",
                    .param = "",
                    .message = std::string(status.message()),
                    .retry_after = kind.retry_after};
  if (const auto param = status.GetPayload(kParam); param.has_value()) {
    error.param = std::string(*param);
  } else if (kind.http == 400) {
    error.param = ParamOf(status.message());
  }
  return error;
}

ApiError ModelError(const absl::Status& status) {
  ApiError error = ErrorOf(status);
  if (!absl::IsNotFound(status)) return error;
  error.code = "model_not_found";
  error.param = "model";
  return error;
}

ApiError HttpError(int http, absl::string_view message) {
  ApiError error;
  error.http = http;
  error.type = http >= 500 ? "server_error" : "invalid_request_error";
  error.message = std::string(message);
  return error;
}

ApiError NothingThere(absl::string_view message) {
  ApiError error = HttpError(404, message);
  error.code = "not_found";
  return error;
}

std::string ErrorBody(const ApiError& error) {
  const auto text_or_null = [](const std::string& text, std::string* out) {
    if (text.empty()) {
      *out += "null";
    } else {
      AppendJsonString(text, out);
    }
  };
  std::string body = "{\"error\":{\"message\":";
  AppendJsonString(LossyUtf8(error.message), &body);
  body += ",\"type\":";
  AppendJsonString(error.type, &body);
  body += ",\"param\":";
  text_or_null(LossyUtf8(error.param), &body);
  body += ",\"code\":";
  text_or_null(error.code, &body);
  body += "}}";
  return body;
}

}  // namespace folio::gateway
