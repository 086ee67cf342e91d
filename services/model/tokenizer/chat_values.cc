#include "services/model/tokenizer/chat_values.h"

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/text/utf8.h"

namespace folio::model {
namespace {

using json = nlohmann::ordered_json;

absl::Status Invalid(absl::string_view place, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(place, problem));
}

// Leaves the parser, which has no other way to stop early.
struct PastALimit : std::exception {};

class Reader {
 public:
  // `text` as JSON of this kind.
  absl::StatusOr<json> Read(absl::string_view text, json::value_t kind, const std::string& place) {
    const auto watch = [&](int depth, json::parse_event_t event, json&) {
      const bool opens =
          event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
      if (opens && depth >= kMaxChatDepth) throw PastALimit();
      if ((opens || event == json::parse_event_t::value) && ++values_ > kMaxChatValues) {
        throw PastALimit();
      }
      return true;
    };
    json value;
    try {
      value = json::parse(text.begin(), text.end(), watch);
    } catch (const PastALimit&) {
      if (values_ <= kMaxChatValues) {
        return Invalid(place, absl::StrCat(" is nested deeper than ", kMaxChatDepth, " levels"));
      }
      return Invalid(place, absl::StrCat(" has too much: fields, tools and template_arguments may ",
                                         "have ", kMaxChatValues, " values together"));
    } catch (const json::exception& error) {
      const absl::string_view what = error.what();
      return Invalid(place, absl::StrCat(" is not JSON: ", what.substr(what.find(' ') + 1)));
    }
    if (value.type() == kind) return value;
    return Invalid(
        place, kind == json::value_t::array ? " must be a JSON array" : " must be a JSON object");
  }

 private:
  size_t values_ = 0;
};

absl::StatusOr<json> MessageValue(const Message& message, const std::string& place,
                                  Reader& reader) {
  for (const std::string* text : {&message.role, &message.content}) {
    if (const auto bad = FirstInvalidUtf8(*text)) {
      return Invalid(place, absl::StrCat(" is not UTF-8 (byte ", *bad, ")"));
    }
  }
  json value = {{"role", message.role}, {"content", message.content}};
  if (message.fields.empty()) return value;
  const std::string inner = absl::StrCat(place, ".fields");
  absl::StatusOr<json> fields = reader.Read(message.fields, json::value_t::object, inner);
  if (!fields.ok()) return fields.status();
  for (auto& [name, field] : fields->items()) {
    if (value.contains(name) && (name == "role" || name == "content")) {
      return Invalid(inner, absl::StrCat(" has ", name, ", which the message itself gives"));
    }
    value[name] = std::move(field);
  }
  return value;
}

}  // namespace

absl::StatusOr<json> ChatValues(absl::Span<const Message> messages, const ChatOptions& options) {
  Reader reader;
  json list = json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    auto value = MessageValue(messages[i], absl::StrCat("messages[", i, "]"), reader);
    if (!value.ok()) return value.status();
    list.push_back(*std::move(value));
  }
  json values = {{"messages", std::move(list)}};
  if (!options.tools.empty()) {
    absl::StatusOr<json> tools = reader.Read(options.tools, json::value_t::array, "tools");
    if (!tools.ok()) return tools.status();
    values["tools"] = *std::move(tools);
  }
  if (options.arguments.empty()) return values;
  const std::string place = "template_arguments";
  absl::StatusOr<json> arguments = reader.Read(options.arguments, json::value_t::object, place);
  if (!arguments.ok()) return arguments.status();
  for (auto& [name, value] : arguments->items()) {
    for (const absl::string_view given : kGivenVariables) {
      if (name != given) continue;
      return Invalid(place, absl::StrCat(" has ", name, ", which cannot be overridden"));
    }
    values[name] = std::move(value);
  }
  return values;
}

std::vector<absl::string_view> TextsOf(const json& values) {
  std::vector<absl::string_view> texts;
  std::vector<const json*> open = {&values};
  while (!open.empty()) {
    const json& value = *open.back();
    open.pop_back();
    if (value.is_string()) texts.push_back(value.get_ref<const std::string&>());
    if (!value.is_structured()) continue;
    if (value.is_object()) {
      for (const auto& [name, inner] : value.get_ref<const json::object_t&>()) {
        texts.push_back(name);
      }
    }
    for (const json& inner : value) open.push_back(&inner);
  }
  return texts;
}

json WithTexts(const json& values, absl::FunctionRef<std::string(const std::string&)> replace) {
  if (values.is_string()) return replace(values.get_ref<const std::string&>());
  if (values.is_array()) {
    json array = json::array();
    for (const json& value : values) array.push_back(WithTexts(value, replace));
    return array;
  }
  if (!values.is_object()) return values;
  json object = json::object();
  for (const auto& [name, value] : values.items()) {
    object[replace(name)] = WithTexts(value, replace);
  }
  return object;
}

}  // namespace folio::model
