// The endpoints that do not generate text.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/api.h"
#include "services/gateway/openai/field_reader.h"
#include "services/gateway/openai/json_text.h"
#include "services/gateway/openai/messages.h"
#include "services/runtime/version.h"
#include "services/text/utf8.h"

namespace folio::gateway {
namespace {

// A client that waits for these waits for nothing else.
constexpr absl::Duration kTokenizeTimeout = absl::Seconds(60);

client::CallOptions UnaryOptions(const ApiRequest& request) {
  client::CallOptions options;
  options.deadline = SteadyNow() + kTokenizeTimeout;
  options.metadata.emplace_back("x-request-id", request.record.request_id);
  return options;
}

// The model's name, if there is one.
absl::StatusOr<std::string> ReadTokenize(const Json& body, bool* strings, v1::Input* input) {
  FieldReader fields(body);
  std::string model = fields.String("model").value_or("");
  *strings = fields.Bool("return_token_strs").value_or(false);
  if (fields.Find("messages") != nullptr) {
    if (fields.Find("prompt") != nullptr) fields.Fail("prompt", "comes beside 'messages'");
    v1::Chat* chat = input->mutable_chat();
    ReadMessages(fields, chat);
    const Json* tools = fields.Find("tools");
    if (tools != nullptr && !tools->is_array()) fields.Fail("tools", "must be a list");
    if (tools != nullptr) chat->set_tools(JsonText(*tools));
    const Json* values = fields.Object("chat_template_kwargs");
    if (values != nullptr) chat->set_template_arguments(JsonText(*values));
  } else if (auto prompt = fields.String("prompt"); prompt.has_value()) {
    if (!fields.Bool("add_special_tokens").value_or(true)) {
      fields.Fail("add_special_tokens", "may not be false, because a prompt has them here");
    }
    input->set_text(*std::move(prompt));
  } else {
    fields.Fail("prompt", "or 'messages' is required");
  }
  if (!fields.status().ok()) return fields.status();
  return model;
}

// "a b" for "a%20b". A percent sign that begins no such number stays.
std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
      i += 2;
      decoded += static_cast<char>(byte);
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

// The worker's answer to a request that it got for a client, as JSON.
std::string TokenizeBody(const v1::TokenizeResponse& response, uint32_t context_length,
                         bool strings) {
  std::string body = absl::StrCat("{\"count\":", response.ids_size(),
                                  ",\"max_model_len\":", context_length, ",\"tokens\":[");
  for (int i = 0; i < response.ids_size(); ++i) {
    absl::StrAppend(&body, i == 0 ? "" : ",", response.ids(i));
  }
  body += "],\"token_strs\":";
  if (!strings) {
    body += "null}";
    return body;
  }
  body += '[';
  for (int i = 0; i < response.pieces_size(); ++i) {
    if (i > 0) body += ',';
    AppendJsonString(LossyUtf8(response.pieces(i)), &body);
  }
  body += "]}";
  return body;
}

}  // namespace

void Api::Tokenize(Request request) {
  const auto body = ParseObject(request->http().body);
  if (!body.ok()) return request->Fail(body.status());
  v1::TokenizeRequest call;
  bool strings = false;
  const auto model = ReadTokenize(*body, &strings, call.mutable_input());
  if (!model.ok()) return request->Fail(model.status());
  auto lease = workers_->Choose(*model, "", 1);
  if (!lease.ok()) return request->Fail(ModelError(lease.status()));
  const size_t worker = lease->worker();
  const uint32_t context = workers_->View()[worker].context_length;
  const client::CallOptions options = UnaryOptions(*request);
  // Functions that take answers are copied, and neither of these can be.
  auto shared = std::make_shared<Request>(std::move(request));
  auto place = std::make_shared<WorkerSet::Lease>(*std::move(lease));
  workers_->calls(worker).Tokenize(
      std::move(call), options,
      [shared, place, context, strings](const absl::StatusOr<v1::TokenizeResponse>& response) {
        if (!response.ok()) return (*shared)->Fail(response.status());
        (*shared)->Reply(200, TokenizeBody(*response, context, strings));
      });
}

void Api::Detokenize(Request request) {
  const auto body = ParseObject(request->http().body);
  if (!body.ok()) return request->Fail(body.status());
  FieldReader fields(*body);
  const std::string model = fields.String("model").value_or("");
  v1::DetokenizeRequest call;
  if (fields.Find("tokens") == nullptr) fields.Fail("tokens", "is required");
  for (const uint32_t token : fields.Tokens("tokens")) call.add_ids(token);
  if (!fields.status().ok()) return request->Fail(fields.status());
  auto lease = workers_->Choose(model, "", 1);
  if (!lease.ok()) return request->Fail(ModelError(lease.status()));
  const size_t worker = lease->worker();
  const client::CallOptions options = UnaryOptions(*request);
  auto shared = std::make_shared<Request>(std::move(request));
  auto place = std::make_shared<WorkerSet::Lease>(*std::move(lease));
  workers_->calls(worker).Detokenize(
      std::move(call), options,
      [shared, place](const absl::StatusOr<v1::DetokenizeResponse>& response) {
        if (!response.ok()) return (*shared)->Fail(response.status());
        std::string text = "{\"prompt\":";
        AppendJsonString(response->text(), &text);
        (*shared)->Reply(200, text + "}");
      });
}

void Api::Models(Request request) {
  std::map<std::string, WorkerView> by_name;
  for (const WorkerView& worker : workers_->View()) {
    if (worker.model.empty()) continue;
    for (const std::string& name : workers_->ModelNames(worker)) by_name.emplace(name, worker);
  }
  absl::string_view wanted = request->http().path;
  const bool one = absl::ConsumePrefix(&wanted, "/v1/models/");
  const std::string decoded = PercentDecoded(wanted);
  wanted = decoded;
  std::string list;
  for (const auto& [name, worker] : by_name) {
    std::string card = "{\"id\":";
    AppendJsonString(name, &card);
    absl::StrAppend(&card, ",\"object\":\"model\",\"created\":", worker.since,
                    ",\"owned_by\":\"folio\",\"root\":");
    AppendJsonString(worker.model, &card);
    absl::StrAppend(&card, ",\"parent\":null,\"max_model_len\":", worker.context_length, "}");
    if (one && wanted == name) return request->Reply(200, card);
    absl::StrAppend(&list, list.empty() ? "" : ",", card);
  }
  if (!one) return request->Reply(200, absl::StrCat("{\"object\":\"list\",\"data\":[", list, "]}"));
  request->Fail(ModelError(
      absl::NotFoundError(absl::StrCat("The model '", LossyUtf8(wanted), "' does not exist."))));
}

void Api::Health(Request request) {
  if (draining_) return request->Fail(absl::UnavailableError("This gateway is shutting down."));
  if (!workers_->serving()) return request->Fail(absl::UnavailableError("No worker serves now."));
  request->Reply(200, "{\"status\":\"ok\"}");
}

void Api::Metrics(Request request) {
  request->Reply(200, options_.metrics_text(), "text/plain; version=0.0.4");
}

void Api::VersionOf(Request request) {
  request->Reply(200, absl::StrCat("{\"version\":\"", Version(), "\"}"));
}

}  // namespace folio::gateway
