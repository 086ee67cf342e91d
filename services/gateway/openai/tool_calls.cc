#include "services/gateway/openai/tool_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/openai/ids.h"
#include "services/gateway/openai/json_text.h"

namespace folio::gateway {
namespace {

constexpr absl::string_view kOpen = "<tool_call>";
constexpr absl::string_view kClose = "</tool_call>";

// Bytes at the end of `text` that could begin `tag`.
size_t PossibleStart(absl::string_view text, absl::string_view tag) {
  for (size_t size = std::min(text.size(), tag.size() - 1); size > 0; --size) {
    if (absl::EndsWith(text, tag.substr(0, size))) return size;
  }
  return 0;
}

// Takes `"key":` from the beginning, with white space where JSON has it.
bool ConsumeKey(absl::string_view key, absl::string_view* json) {
  *json = absl::StripLeadingAsciiWhitespace(*json);
  if (!absl::ConsumePrefix(json, absl::StrCat("\"", key, "\""))) return false;
  *json = absl::StripLeadingAsciiWhitespace(*json);
  if (!absl::ConsumePrefix(json, ":")) return false;
  *json = absl::StripLeadingAsciiWhitespace(*json);
  return true;
}

// The call whose JSON was cut off somewhere in its arguments, which are the last field.
std::optional<ToolCall> CutOffCall(absl::string_view json) {
  json = absl::StripLeadingAsciiWhitespace(json);
  if (!absl::ConsumePrefix(&json, "{") || !ConsumeKey("name", &json)) return std::nullopt;
  const size_t end = json.find(',');  // names of functions have no comma
  const auto name = ParseJson(json.substr(0, end));
  if (end == absl::string_view::npos || !name.ok() || !name->is_string()) return std::nullopt;
  json.remove_prefix(end + 1);
  if (!ConsumeKey("arguments", &json)) json = "";
  return ToolCall{NewToolCallId(), name->get<std::string>(), std::string(json)};
}

}  // namespace

std::string NewToolCallId() { return NewId("call_"); }

void ToolCallReader::AddCall(absl::string_view json, absl::string_view as_it_was, Found* found) {
  const auto parsed = ParseObject(absl::StripAsciiWhitespace(json));
  if (!parsed.ok() || !parsed->contains("name") || !(*parsed)["name"].is_string()) {
    absl::StrAppend(&found->text, as_it_was);
    return;
  }
  ToolCall call;
  call.id = NewToolCallId();
  call.name = (*parsed)["name"].get<std::string>();
  const auto arguments = parsed->find("arguments");
  if (arguments == parsed->end()) {
    call.arguments = "{}";
  } else {
    call.arguments = arguments->is_string() ? arguments->get<std::string>() : JsonText(*arguments);
  }
  found->calls.push_back(std::move(call));
  ++count_;
}

ToolCallReader::Found ToolCallReader::Feed(absl::string_view text) {
  // No closing tag was in what was held before, except for its beginning.
  size_t searched = held_.size() - std::min(held_.size(), kClose.size() - 1);
  held_.append(text.data(), text.size());
  Found found;
  if (untagged_) return found;
  for (;;) {
    const absl::string_view held = held_;
    const size_t open = held.find(kOpen);
    if (open == absl::string_view::npos) {
      const size_t free = held.size() - PossibleStart(held, kOpen);
      found.text.append(held_, 0, free);
      held_.erase(0, free);
      return found;
    }
    found.text.append(held_, 0, open);
    const size_t close = held.find(kClose, std::max(open, searched));
    searched = 0;
    if (close == absl::string_view::npos) {
      held_.erase(0, open);
      return found;
    }
    const size_t begin = open + kOpen.size(), end = close + kClose.size();
    AddCall(held.substr(begin, close - begin), held.substr(open, end - open), &found);
    held_.erase(0, end);
  }
}

ToolCallReader::Found ToolCallReader::Finish() {
  Found found;
  const std::string held = std::exchange(held_, {});
  if (untagged_) {
    AddCall(held, held, &found);
    if (!found.calls.empty()) return found;
    if (auto call = CutOffCall(held); call.has_value()) {
      found.text.clear();
      found.calls.push_back(*std::move(call));
      ++count_;
    }
  } else if (absl::StartsWith(held, kOpen)) {
    AddCall(absl::string_view(held).substr(kOpen.size()), held, &found);
  } else {
    found.text = held;
  }
  return found;
}

}  // namespace folio::gateway
