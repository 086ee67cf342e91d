#include "services/gateway/openai/messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/openai/json_text.h"

namespace folio::gateway {
namespace {

// The text of a list of parts.
std::string JoinParts(const Json& parts, FieldReader& message, const std::string& at) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = absl::StrCat("content[", i, "]");
    if (!parts[i].is_object()) {
      message.Fail(name, "must be an object");
      return "";
    }
    FieldReader part(parts[i], absl::StrCat(at, name, "."));
    const std::string type = part.String("type").value_or("");
    if (type != "text" && type != "refusal") {
      part.Fail("type", absl::StrCat("must be text; '", type, "' is not supported"));
    }
    const auto words = part.String(type == "refusal" ? "refusal" : "text");
    if (!words.has_value()) part.Fail("text", "is required");
    if (!part.status().ok()) {
      message.Fail(part.status());
      return "";
    }
    absl::StrAppend(&text, i == 0 ? "" : "\n", *words);
  }
  return text;
}

// Turns arguments that are JSON in a string into the object that they say.
void OpenArguments(Json* calls) {
  if (!calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    const auto found = function.find("arguments");
    if (found == function.end() || !found->is_string()) continue;
    auto opened = ParseObject(found->get<std::string>());
    if (opened.ok()) *found = *std::move(opened);
  }
}

void ReadMessage(const Json& given, FieldReader& message, const std::string& at,
                 v1::ChatMessage* out) {
  const std::string role = message.String("role").value_or("");
  if (role.empty()) message.Fail("role", "is required and may not be empty");
  out->set_role(role == "developer" ? "system" : role);
  if (const Json* content = message.Find("content"); content != nullptr) {
    if (content->is_string()) {
      out->set_content(content->get<std::string>());
    } else if (content->is_array()) {
      out->set_content(JoinParts(*content, message, at));
    } else {
      message.Fail("content", "must be a string or a list of parts");
    }
  } else if (role == "user" || role == "system" || role == "developer") {
    message.Fail("content", "is required");
  }
  Json rest = Json::object();
  for (const auto& [name, value] : given.items()) {
    if (name != "role" && name != "content" && !value.is_null()) rest[name] = value;
  }
  if (rest.empty()) return;
  if (const auto calls = rest.find("tool_calls"); calls != rest.end()) OpenArguments(&*calls);
  out->set_fields(JsonText(rest));
}

}  // namespace

void ReadMessages(FieldReader& fields, v1::Chat* chat) {
  const Json* messages = fields.Find("messages");
  if (messages == nullptr) return fields.Fail("messages", "is required");
  if (!messages->is_array() || messages->empty()) {
    return fields.Fail("messages", "must be a list of at least one message");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    const Json& given = (*messages)[i];
    if (!given.is_object()) {
      return fields.Fail(absl::StrCat("messages[", i, "]"), "must be an object");
    }
    const std::string at = absl::StrCat("messages[", i, "].");
    FieldReader message(given, at);
    ReadMessage(given, message, at, chat->add_messages());
    if (!message.status().ok()) return fields.Fail(message.status());
  }
}

}  // namespace folio::gateway
