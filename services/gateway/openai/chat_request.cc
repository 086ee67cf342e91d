// A request of /v1/chat/completions.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/openai/call.h"
#include "services/gateway/openai/common_fields.h"
#include "services/gateway/openai/json_text.h"
#include "services/gateway/openai/messages.h"

namespace folio::gateway {
namespace {

constexpr uint32_t kRestOfContext = std::numeric_limits<uint32_t>::max();

void ReadLogprobs(FieldReader& fields, Call* call, v1::GenerateRequest* request) {
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs", 0, kMostTop);
  if (!wanted) {
    if (top.value_or(0) > 0) fields.Fail("top_logprobs", "is allowed only with 'logprobs'");
    return;
  }
  call->top_logprobs = static_cast<uint32_t>(top.value_or(0));
  request->set_logprobs(*call->top_logprobs);
}

// The parameters of a function, as a JSON Schema. A function without them takes none, as OpenAI
// says.
Json ParametersOf(const Json& tool) {
  const Json& function = tool["function"];
  const auto found = function.find("parameters");
  if (found != function.end() && found->is_object()) return *found;
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
}

// The tools by name. Empty after an error.
std::map<std::string, Json> CheckTools(FieldReader& fields, const Json& tools) {
  std::map<std::string, Json> by_name;
  if (!tools.is_array()) {
    fields.Fail("tools", "must be a list");
    return {};
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string at = absl::StrCat("tools[", i, "]");
    if (!tools[i].is_object()) {
      fields.Fail(at, "must be an object");
      return {};
    }
    FieldReader tool(tools[i], absl::StrCat(at, "."));
    if (tool.String("type").value_or("function") != "function") {
      tool.Fail("type", "must be function");
    }
    const Json* function = tool.Object("function");
    if (function == nullptr) {
      tool.Fail("function", "is required");
    } else {
      FieldReader inner(*function, absl::StrCat(at, ".function."));
      const std::string name = inner.String("name").value_or("");
      if (name.empty()) inner.Fail("name", "is required and may not be empty");
      (void)inner.Object("parameters");
      if (!inner.status().ok()) tool.Fail(inner.status());
      by_name.emplace(name, tools[i]);
    }
    if (!tool.status().ok()) {
      fields.Fail(tool.status());
      return {};
    }
  }
  return by_name;
}

// The name of the function in an object of OpenAI's form. Empty after an error.
std::string NamedTool(FieldReader& fields, const Json& choice) {
  const Json* function =
      choice.is_object() && choice.contains("function") ? &choice["function"] : nullptr;
  if (function != nullptr && function->is_object() && function->contains("name") &&
      (*function)["name"].is_string()) {
    return (*function)["name"].get<std::string>();
  }
  fields.Fail("tool_choice", "must be none, auto, required, or name a function");
  return "";
}

// Leads the references in a schema to its parts, when it has become the part `at` of another one.
void MoveReferences(const std::string& at, Json* schema) {
  static const std::set<std::string> kNamed = {"properties", "patternProperties", "$defs",
                                               "definitions", "dependentSchemas"};
  static const std::set<std::string> kValues = {"const", "enum", "default", "examples"};
  if (schema->is_array()) {
    for (Json& each : *schema) MoveReferences(at, &each);
  }
  if (!schema->is_object()) return;
  for (const auto& [name, value] : schema->items()) {
    if (name == "$ref" && value.is_string()) {
      const std::string path = value.get<std::string>();
      if (path == "#" || absl::StartsWith(path, "#/")) value = absl::StrCat(at, path.substr(1));
    } else if (kNamed.contains(name) && value.is_object()) {
      for (const auto& [_, part] : value.items()) MoveReferences(at, &part);
    } else if (!kValues.contains(name)) {
      MoveReferences(at, &value);
    }
  }
}

// The schema of a call of one of the tools.
Json AnyTool(const std::map<std::string, Json>& by_name) {
  Json kinds = Json::array();
  for (const auto& [name, tool] : by_name) {
    Json parameters = ParametersOf(tool);
    MoveReferences(absl::StrCat("#/anyOf/", kinds.size(), "/properties/arguments"), &parameters);
    kinds.push_back(
        {{"type", "object"},
         {"properties", {{"name", {{"const", name}}}, {"arguments", std::move(parameters)}}},
         {"required", {"name", "arguments"}},
         {"additionalProperties", false}});
  }
  return {{"anyOf", kinds}};
}

void SetSchema(FieldReader& fields, const Json& schema, v1::GenerateRequest* request) {
  if (request->has_format()) {
    fields.Fail("tool_choice", "comes beside another format of the answer");
  }
  request->mutable_format()->set_json_schema(JsonText(schema));
}

void ReadTools(FieldReader& fields, Call* call, v1::GenerateRequest* request) {
  const Json* tools = fields.Find("tools");
  const Json* choice = fields.Find("tool_choice");
  call->parallel_tools = fields.Bool("parallel_tool_calls").value_or(true);
  if (tools == nullptr || (tools->is_array() && tools->empty())) {
    if (choice != nullptr && *choice != Json("none") && *choice != Json("auto")) {
      fields.Fail("tool_choice", "is allowed only with 'tools'");
    }
    return;
  }
  const std::map<std::string, Json> by_name = CheckTools(fields, *tools);
  if (by_name.empty() || (choice != nullptr && *choice == Json("none"))) return;
  request->mutable_input()->mutable_chat()->set_tools(JsonText(*tools));
  call->tools = ToolParsing::kTagged;
  if (choice == nullptr || *choice == Json("auto")) return;
  if (*choice == Json("required")) {
    call->tools = ToolParsing::kAny;
    return SetSchema(fields, AnyTool(by_name), request);
  }
  call->forced_tool = NamedTool(fields, *choice);
  const auto found = by_name.find(call->forced_tool);
  if (found == by_name.end()) {
    fields.Fail("tool_choice", absl::StrCat("names '", call->forced_tool,
                                            "', which is not a function among 'tools'"));
    return;
  }
  call->tools = ToolParsing::kForced;
  SetSchema(fields, ParametersOf(found->second), request);
}

}  // namespace

absl::StatusOr<Call> ReadChat(const Json& body) {
  Call call;
  call.chat = true;
  FieldReader fields(body);
  v1::GenerateRequest request;
  v1::Chat* chat = request.mutable_input()->mutable_chat();
  ReadMessages(fields, chat);
  const int64_t n = ReadCommon(fields, &call, &request);
  // The newer name counts.
  const auto most = fields.Integer("max_completion_tokens", 1, kMostTokens);
  if (most.has_value()) request.set_max_tokens(static_cast<uint32_t>(*most));
  if (request.max_tokens() == 0) request.set_max_tokens(kRestOfContext);
  ReadLogprobs(fields, &call, &request);
  ReadTools(fields, &call, &request);
  if (const Json* values = fields.Object("chat_template_kwargs"); values != nullptr) {
    chat->set_template_arguments(JsonText(*values));
  }
  if (!fields.status().ok()) return fields.status();
  if (absl::Status status = AddChoices(request, n, &call); !status.ok()) return status;
  return call;
}

}  // namespace folio::gateway
