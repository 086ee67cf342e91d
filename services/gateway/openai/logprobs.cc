#include "services/gateway/openai/logprobs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "services/gateway/openai/json_text.h"
#include "services/text/utf8.h"

namespace folio::gateway {
namespace {

void AppendNumber(float logprob, std::string* out) {
  if (std::isfinite(logprob)) {
    absl::StrAppend(out, logprob);
  } else {
    *out += kUnknownLogprob;
  }
}

// The inside of an object: "token":...,"logprob":...,"bytes":[...]
void AppendCandidate(absl::string_view bytes, float logprob, std::string* out) {
  *out += "\"token\":";
  AppendJsonString(LossyUtf8(bytes), out);
  *out += ",\"logprob\":";
  AppendNumber(logprob, out);
  *out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    absl::StrAppend(out, i == 0 ? "" : ",", static_cast<uint8_t>(bytes[i]));
  }
  *out += ']';
}

// The most likely ones, and the token itself, as OpenAI and vLLM have it.
void AppendTop(const v1::TokenLogprob& token, uint32_t top, std::string* out) {
  std::set<std::string> shown;  // bytes of several tokens may look alike, and an object has keys
  const auto add = [&](const std::string& bytes, float logprob) {
    std::string text = LossyUtf8(bytes);
    if (shown.contains(text)) return;
    *out += shown.empty() ? "" : ",";
    AppendJsonString(text, out);
    *out += ':';
    AppendNumber(logprob, out);
    shown.insert(std::move(text));
  };
  *out += '{';
  const int count = std::min<int>(token.top_size(), static_cast<int>(top));
  for (int i = 0; i < count; ++i) add(token.top(i).bytes(), token.top(i).logprob());
  add(token.bytes(), token.logprob());
  *out += '}';
}

}  // namespace

size_t CountChars(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void AppendChatLogprobs(Logprobs tokens, uint32_t top, std::string* out) {
  *out += "{\"content\":[";
  for (const v1::TokenLogprob* const& token : tokens) {
    *out += &token == tokens.data() ? "{" : ",{";
    AppendCandidate(token->bytes(), token->logprob(), out);
    *out += ",\"top_logprobs\":[";
    const int count = std::min<int>(token->top_size(), static_cast<int>(top));
    for (int i = 0; i < count; ++i) {
      *out += i == 0 ? "{" : ",{";
      AppendCandidate(token->top(i).bytes(), token->top(i).logprob(), out);
      *out += '}';
    }
    *out += "]}";
  }
  *out += "]}";
}

void AppendCompletionLogprobs(Logprobs tokens, uint32_t top, size_t offset, std::string* out) {
  std::string names, logprobs, tops, offsets;
  for (const v1::TokenLogprob* const& token : tokens) {
    const char* comma = &token == tokens.data() ? "" : ",";
    const std::string text = LossyUtf8(token->bytes());
    names += comma;
    AppendJsonString(text, &names);
    logprobs += comma;
    AppendNumber(token->logprob(), &logprobs);
    absl::StrAppend(&offsets, comma, offset);
    offset += CountChars(text);
    tops += comma;
    if (top > 0) {
      AppendTop(*token, top, &tops);
    } else {
      tops += "null";
    }
  }
  absl::StrAppend(out, "{\"tokens\":[", names, "],\"token_logprobs\":[", logprobs,
                  "],\"top_logprobs\":");
  if (top > 0) {
    absl::StrAppend(out, "[", tops, "]");
  } else {
    *out += "null";
  }
  absl::StrAppend(out, ",\"text_offset\":[", offsets, "]}");
}

}  // namespace folio::gateway
