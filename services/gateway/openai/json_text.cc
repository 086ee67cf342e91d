#include "services/gateway/openai/json_text.h"

#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "services/text/utf8.h"

namespace folio::gateway {
namespace {

constexpr size_t kMostWords = 300;

// Whether brackets outside of strings are nested too deeply. It need not be JSON otherwise.
bool TooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// The parser's words without its own name: "[json.exception.parse_error.101] parse error at ...".
absl::string_view Words(absl::string_view what) {
  const size_t end = what.find("] ");
  if (end != absl::string_view::npos) what.remove_prefix(end + 2);
  return what.substr(0, kMostWords);  // it may quote a long string
}

bool IsPlain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

void AppendEscaped(char c, std::string* out) {
  constexpr absl::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      *out += "\\\"";
      break;
    case '\\':
      *out += "\\\\";
      break;
    case '\n':
      *out += "\\n";
      break;
    case '\r':
      *out += "\\r";
      break;
    case '\t':
      *out += "\\t";
      break;
    default: {
      const auto byte = static_cast<uint8_t>(c);
      const std::array<char, 6> escape = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
      out->append(escape.data(), escape.size());
    }
  }
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  if (TooDeep(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("The body's JSON is nested deeper than ", kMostJsonDepth, " levels."));
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("The body is not JSON: ", LossyUtf8(Words(error.what()))));
  }
}

absl::StatusOr<Json> ParseObject(absl::string_view text) {
  auto value = ParseJson(text);
  if (!value.ok() || value->is_object()) return value;
  return absl::InvalidArgumentError("The body must be a JSON object.");
}

void AppendJsonString(absl::string_view text, std::string* out) {
  out->push_back('"');
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsPlain(text[i])) continue;
    out->append(text.data() + begin, i - begin);
    AppendEscaped(text[i], out);
    begin = i + 1;
  }
  out->append(text.data() + begin, text.size() - begin);
  out->push_back('"');
}

std::string JsonText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace folio::gateway
