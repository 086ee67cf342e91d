#include "services/cli/output.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/cli/format.h"
#include "services/client/message_json.h"

namespace folio::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Letters, digits and a few signs, with a letter first, are a string to every reader of YAML,
// except for the words of YAML 1.1.
bool IsPlain(const std::string& text) {
  static constexpr const char* kWords[] = {"true", "false", "null", "yes", "no",
                                           "on",   "off",   "y",    "n"};
  if (text.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(text[0]))) return false;
  const bool safe = absl::c_all_of(text, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ||
           c == '/';
  });
  return safe && !absl::c_any_of(
                     kWords, [&](const char* word) { return absl::EqualsIgnoreCase(text, word); });
}

std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlain(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return Dump(value, -1);  // the strings and numbers of JSON are YAML too
}

bool IsBlock(const Json& value) { return value.is_structured() && !value.empty(); }

void Write(const Json& value, const std::string& indent, std::string* out) {
  // The first line of a block that is an item of a list stands behind its dash.
  bool first = true;
  const auto begin = [&] { return std::exchange(first, false) ? std::string() : indent; };
  if (value.is_array()) {
    for (const Json& item : value) {
      absl::StrAppend(out, begin(), "- ");
      if (IsBlock(item)) {
        Write(item, indent + "  ", out);
      } else {
        absl::StrAppend(out, Scalar(item), "\n");
      }
    }
    return;
  }
  for (const auto& [name, item] : value.items()) {
    absl::StrAppend(out, begin(), Scalar(name), ":");
    if (IsBlock(item)) {
      absl::StrAppend(out, "\n", indent, "  ");
      Write(item, indent + "  ", out);
    } else {
      absl::StrAppend(out, " ", Scalar(item), "\n");
    }
  }
}

Json Parse(const google::protobuf::Message& message) {
  return Json::parse(client::MessageJson(message));
}

absl::Status WriteSelected(const std::string& json, const Output& output, std::ostream& out) {
  const auto selected = output.query->Apply(json);
  if (!selected.ok()) return selected.status();
  out << Document(Json::parse(*selected), output.format);
  return absl::OkStatus();
}

}  // namespace

std::string ToYaml(const Json& value) {
  if (!IsBlock(value)) return absl::StrCat(Scalar(value), "\n");
  std::string text;
  Write(value, "", &text);
  return text;
}

std::string Document(const google::protobuf::Message& message, OutputFormat format) {
  if (format == OutputFormat::kYaml) return ToYaml(Parse(message));
  return client::MessageJson(message, /*pretty=*/true);
}

std::string Document(const Json& value, OutputFormat format) {
  if (format == OutputFormat::kYaml) return ToYaml(value);
  return absl::StrCat(Dump(value, 1), "\n");
}

std::string StreamItem(const google::protobuf::Message& message, OutputFormat format) {
  if (format == OutputFormat::kYaml) return absl::StrCat("---\n", ToYaml(Parse(message)));
  return absl::StrCat(client::MessageJson(message), "\n");
}

absl::Status WriteDocument(const google::protobuf::Message& message, const Output& output,
                           std::ostream& out) {
  if (output.query != nullptr) {
    return WriteSelected(client::MessageJson(message), output, out);
  }
  out << Document(message, output.format);
  return absl::OkStatus();
}

absl::Status WriteDocument(const Json& value, const Output& output, std::ostream& out) {
  if (output.query != nullptr) return WriteSelected(Dump(value, -1), output, out);
  out << Document(value, output.format);
  return absl::OkStatus();
}

absl::Status WriteItem(const google::protobuf::Message& message, const Output& output,
                       std::ostream& out) {
  if (output.query == nullptr) {
    out << StreamItem(message, output.format) << std::flush;
    return absl::OkStatus();
  }
  const auto selected = output.query->Apply(client::MessageJson(message));
  if (!selected.ok()) return selected.status();
  if (*selected == "null") return absl::OkStatus();
  if (output.format == OutputFormat::kYaml) {
    out << "---\n" << ToYaml(Json::parse(*selected)) << std::flush;
  } else {
    out << *selected << "\n" << std::flush;
  }
  return absl::OkStatus();
}

}  // namespace folio::cli
