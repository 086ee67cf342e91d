// The fields that ask for a form of the answer.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/openai/common_fields.h"
#include "services/gateway/openai/json_text.h"

namespace folio::gateway {
namespace {

constexpr char kAnyObject[] = R"({"type":"object"})";

// The text as a regular expression that matches nothing else.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (absl::string_view(R"(\.+*?()|[]{}^$#&-~)").find(c) != absl::string_view::npos) {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

// Fills in a format, once. `base` is the part of the fields' names before the kind.
class FormatReader {
 public:
  FormatReader(FieldReader& fields, v1::OutputFormat* format) : fields_(fields), format_(format) {}

  void Read(const char* schema, const char* regex, const char* choice, const char* grammar) {
    if (const Json* given = fields_.Find(schema); given != nullptr) {
      if (!given->is_object() && !given->is_string()) {
        return fields_.Fail(schema, "must be a JSON schema");
      }
      Set(schema)->set_json_schema(given->is_string() ? given->get<std::string>()
                                                      : JsonText(*given));
    }
    if (auto given = fields_.String(regex); given.has_value()) {
      Set(regex)->set_regex(*std::move(given));
    }
    if (const Json* given = fields_.Find(choice); given != nullptr) ReadChoice(choice, *given);
    if (auto given = fields_.String(grammar); given.has_value()) {
      Set(grammar)->set_grammar(*std::move(given));
    }
  }

  void SetAnyObject(const char* name) { Set(name)->set_json_schema(kAnyObject); }

 private:
  v1::OutputFormat* Set(const char* name) {
    if (format_->kind_case() != v1::OutputFormat::KIND_NOT_SET) {
      fields_.Fail(name, "comes beside another format of the answer, and only one may be given");
    }
    return format_;
  }

  void ReadChoice(const char* name, const Json& given) {
    std::string regex;
    for (const Json& each : given.is_array() ? given : Json::array()) {
      if (!each.is_string()) return fields_.Fail(name, "must be a list of strings");
      absl::StrAppend(&regex, regex.empty() ? "" : "|", "(", Escaped(each.get<std::string>()), ")");
    }
    if (regex.empty()) return fields_.Fail(name, "must be a list of strings");
    Set(name)->set_regex(std::move(regex));
  }

  FieldReader& fields_;
  v1::OutputFormat* const format_;
};

void ReadResponseFormat(FieldReader& fields, v1::OutputFormat* format) {
  const Json* given = fields.Object("response_format");
  if (given == nullptr) return;
  FieldReader inner(*given, "response_format.");
  const std::string type = inner.String("type").value_or("");
  if (type == "json_object") {
    format->set_json_schema(kAnyObject);
  } else if (type == "json_schema") {
    const Json* named = inner.Object("json_schema");
    if (named == nullptr) {
      inner.Fail("json_schema", "is required with the type json_schema");
    } else {
      FieldReader schema(*named, "response_format.json_schema.");
      const Json* found = schema.Object("schema");
      format->set_json_schema(found == nullptr ? kAnyObject : JsonText(*found));
      if (!schema.status().ok()) inner.Fail(schema.status());
    }
  } else if (type != "text") {
    inner.Fail("type", "must be text, json_object or json_schema");
  }
  if (!inner.status().ok()) fields.Fail(inner.status());
}

}  // namespace

void ReadFormat(FieldReader& fields, v1::GenerateRequest* request) {
  v1::OutputFormat format;
  ReadResponseFormat(fields, &format);
  FormatReader(fields, &format)
      .Read("guided_json", "guided_regex", "guided_choice", "guided_grammar");
  if (const Json* given = fields.Object("structured_outputs"); given != nullptr) {
    FieldReader inner(*given, "structured_outputs.");
    FormatReader reader(inner, &format);
    reader.Read("json", "regex", "choice", "grammar");
    if (inner.Bool("json_object").value_or(false)) reader.SetAnyObject("json_object");
    for (const char* name : {"structural_tag", "whitespace_pattern", "disable_any_whitespace",
                             "disable_additional_properties"}) {
      inner.Refuse(name, "is not supported");
    }
    if (!inner.status().ok()) fields.Fail(inner.status());
  }
  if (format.kind_case() != v1::OutputFormat::KIND_NOT_SET) {
    *request->mutable_format() = std::move(format);
  }
}

}  // namespace folio::gateway
