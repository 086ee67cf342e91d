#include "services/gateway/openai/answer.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "services/client/policy_text.h"
#include "services/gateway/openai/json_text.h"

namespace folio::gateway {
namespace {

void AppendUsageObject(const TokenUsage& usage, std::string* out) {
  absl::StrAppend(out, "{\"prompt_tokens\":", usage.prompt,
                  ",\"total_tokens\":", usage.prompt + usage.completion,
                  ",\"completion_tokens\":", usage.completion,
                  ",\"prompt_tokens_details\":{\"cached_tokens\":0}}");
}

// The string that ended the answer, the token that did, or null.
void AppendStopReason(const v1::Finished& finished, std::string* out) {
  if (!finished.stop().empty()) {
    AppendJsonString(finished.stop(), out);
  } else if (finished.has_stop_token() && finished.reason() == v1::FINISH_REASON_STOP) {
    absl::StrAppend(out, finished.stop_token());
  } else {
    *out += "null";
  }
}

// The positions [begin, end) that stayed, by layer.
void AppendKept(const std::vector<client::Ranges>& kept, std::string* out) {
  *out += ",\"kept\":";
  char before = '[';
  for (const client::Ranges& layer : kept) {
    *out += std::exchange(before, ',');
    *out += '[';
    for (size_t i = 0; i < layer.size(); ++i) {
      absl::StrAppend(out, i == 0 ? "[" : ",[", layer[i].begin, ",", layer[i].end, "]");
    }
    *out += ']';
  }
  *out += ']';
}

// The costs of a choice in the cache, and its policy.
void AppendCache(const Choice& choice, std::string* out) {
  const v1::Started& started = choice.started;
  const v1::CacheStats& cache = choice.finished.cache();
  *out += "{\"policy\":";
  AppendJsonString(client::PolicyText(started.cache().policy()), out);
  absl::StrAppend(out, ",\"budget_tokens\":", started.cache().budget_tokens(),
                  ",\"resident_tokens\":", cache.resident_tokens(),
                  ",\"peak_resident_tokens\":", cache.peak_resident_tokens(),
                  ",\"evicted_tokens\":", cache.evicted_tokens(),
                  ",\"held_pages\":", cache.held_pages(),
                  ",\"peak_held_pages\":", cache.peak_held_pages(),
                  ",\"resident_bytes\":", cache.resident_bytes(), ",\"seed\":", started.seed());
  if (!choice.kept.empty()) AppendKept(choice.kept, out);
  *out += '}';
}

void AppendToolCalls(const std::vector<ToolCall>& calls, std::string* out) {
  *out += '[';
  for (size_t i = 0; i < calls.size(); ++i) {
    *out += i == 0 ? "{\"id\":" : ",{\"id\":";
    AppendJsonString(calls[i].id, out);
    *out += ",\"type\":\"function\",\"function\":{\"name\":";
    AppendJsonString(calls[i].name, out);
    *out += ",\"arguments\":";
    AppendJsonString(calls[i].arguments, out);
    *out += "}}";
  }
  *out += ']';
}

void AppendMessage(const Choice& choice, std::string* out) {
  *out += "\"message\":{\"role\":\"assistant\",\"content\":";
  const bool only_calls =
      !choice.tool_calls.empty() && absl::StripAsciiWhitespace(choice.text).empty();
  if (only_calls) {
    *out += "null";
  } else {
    AppendJsonString(choice.text, out);
  }
  *out += ",\"refusal\":null";
  if (!choice.tool_calls.empty()) {
    *out += ",\"tool_calls\":";
    AppendToolCalls(choice.tool_calls, out);
  }
  *out += '}';
}

}  // namespace

absl::string_view FinishReasonText(const v1::Finished& finished, bool tool_calls) {
  if (finished.reason() == v1::FINISH_REASON_LENGTH) return "length";
  return tool_calls ? "tool_calls" : "stop";
}

AnswerWriter::AnswerWriter(const Call& call, absl::string_view id, int64_t created,
                           absl::string_view model)
    : chat_(call.chat),
      show_cache_(call.show_cache),
      named_tool_(!call.forced_tool.empty()),
      usage_later_(call.include_usage && !call.continuous_usage),
      top_logprobs_(call.top_logprobs) {
  const auto head = [&](absl::string_view object, std::string* out) {
    *out += "{\"id\":";
    AppendJsonString(id, out);
    absl::StrAppend(out, ",\"object\":\"", object, "\",\"created\":", created, ",\"model\":");
    AppendJsonString(model, out);
    *out += ",\"choices\":[";
  };
  head(chat_ ? "chat.completion" : "text_completion", &whole_);
  chunk_ = "data: ";
  head(chat_ ? "chat.completion.chunk" : "text_completion", &chunk_);
}

void AnswerWriter::AppendLogprobs(Logprobs logprobs, size_t chars, std::string* out) const {
  *out += ",\"logprobs\":";
  if (!top_logprobs_.has_value() || logprobs.empty()) {
    *out += "null";
  } else if (chat_) {
    AppendChatLogprobs(logprobs, *top_logprobs_, out);
  } else {
    AppendCompletionLogprobs(logprobs, *top_logprobs_, chars, out);
  }
}

void AnswerWriter::AppendChoice(size_t index, const Choice& choice, std::string* out) const {
  absl::StrAppend(out, "{\"index\":", index, ",");
  if (chat_) {
    AppendMessage(choice, out);
  } else {
    *out += "\"text\":";
    AppendJsonString(choice.text, out);
  }
  AppendLogprobs(PointersTo(choice.logprobs), 0, out);
  AppendEnd(choice, out);
  *out += '}';
}

void AnswerWriter::AppendEnd(const Choice& choice, std::string* out) const {
  const v1::Finished& finished = choice.finished;
  absl::StrAppend(out, ",\"finish_reason\":\"",
                  FinishReasonText(finished, !named_tool_ && !choice.tool_calls.empty()),
                  "\",\"stop_reason\":");
  AppendStopReason(finished, out);
  if (!show_cache_) return;
  *out += ",\"cache\":";
  AppendCache(choice, out);
}

std::string AnswerWriter::Whole(const std::vector<Choice>& choices, const TokenUsage& usage) const {
  std::string out = whole_;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out += ',';
    AppendChoice(i, choices[i], &out);
  }
  out += "],\"usage\":";
  AppendUsageObject(usage, &out);
  out += '}';
  return out;
}

void AnswerWriter::BeginChunk(int index, std::string* out) const {
  absl::StrAppend(out, chunk_, "{\"index\":", index, ",");
}

void AnswerWriter::EndChunk(const TokenUsage* usage, std::string* out) const {
  *out += "}]";
  if (usage != nullptr) {
    *out += ",\"usage\":";
    AppendUsageObject(*usage, out);
  } else if (usage_later_) {
    *out += ",\"usage\":null";
  }
  *out += "}\n\n";
}

void AnswerWriter::AppendRole(int index, const TokenUsage* usage, std::string* out) const {
  BeginChunk(index, out);
  *out +=
      "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
      "\"finish_reason\":null";
  EndChunk(usage, out);
}

void AnswerWriter::AppendText(int index, absl::string_view text, Logprobs logprobs, size_t chars,
                              const TokenUsage* usage, std::string* out) const {
  BeginChunk(index, out);
  *out += chat_ ? "\"delta\":{\"content\":" : "\"text\":";
  AppendJsonString(text, out);
  if (chat_) *out += '}';
  AppendLogprobs(logprobs, chars, out);
  *out += ",\"finish_reason\":null";
  EndChunk(usage, out);
}

void AnswerWriter::AppendToolCall(int index, const ToolCallPiece& piece, Logprobs logprobs,
                                  const TokenUsage* usage, std::string* out) const {
  BeginChunk(index, out);
  absl::StrAppend(out, "\"delta\":{\"tool_calls\":[{\"index\":", piece.index);
  if (!piece.id.empty()) {
    *out += ",\"id\":";
    AppendJsonString(piece.id, out);
    *out += ",\"type\":\"function\"";
  }
  *out += ",\"function\":{";
  if (!piece.name.empty()) {
    *out += "\"name\":";
    AppendJsonString(piece.name, out);
    *out += ',';
  }
  *out += "\"arguments\":";
  AppendJsonString(piece.arguments, out);
  *out += "}}]}";
  AppendLogprobs(logprobs, 0, out);
  *out += ",\"finish_reason\":null";
  EndChunk(usage, out);
}

void AnswerWriter::AppendFinish(int index, const Choice& choice, Logprobs logprobs,
                                const TokenUsage* usage, std::string* out) const {
  BeginChunk(index, out);
  *out += chat_ ? "\"delta\":{}" : "\"text\":\"\"";
  AppendLogprobs(logprobs, 0, out);
  AppendEnd(choice, out);
  EndChunk(usage, out);
}

void AnswerWriter::AppendUsage(const TokenUsage& usage, std::string* out) const {
  absl::StrAppend(out, chunk_, "],\"usage\":");
  AppendUsageObject(usage, out);
  *out += "}\n\n";
}

void AnswerWriter::AppendError(absl::string_view error_body, std::string* out) {
  absl::StrAppend(out, "data: ", error_body, "\n\n");
}

void AnswerWriter::AppendDone(std::string* out) { *out += "data: [DONE]\n\n"; }

}  // namespace folio::gateway
