// These functions write answers as OpenAI's API has them, whole and in chunks. Chunks are written
// by appending, because one is made for each token.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_ANSWER_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "folio/v1/inference.pb.h"
#include "services/client/kept_positions.h"
#include "services/gateway/openai/call.h"
#include "services/gateway/openai/logprobs.h"
#include "services/gateway/openai/tool_calls.h"

namespace folio::gateway {

// The tokens of a request, of all choices together.
struct TokenUsage {
  uint64_t prompt = 0;
  uint64_t completion = 0;
};

// One choice of a whole answer.
struct Choice {
  std::string text;
  std::vector<folio::v1::TokenLogprob> logprobs;
  std::vector<ToolCall> tool_calls;
  folio::v1::Started started;
  folio::v1::Finished finished;
  std::vector<client::Ranges> kept;  // by layer, if the client asked for it
};

// "stop", "length" or "tool_calls".
absl::string_view FinishReasonText(const folio::v1::Finished& finished, bool tool_calls);

// AnswerWriter writes the answer to one request. Immutable, and thread-safe.
class AnswerWriter {
 public:
  // `id` is unique, `created` in Unix seconds, and `model` the name that the answer shows.
  AnswerWriter(const Call& call, absl::string_view id, int64_t created, absl::string_view model);

  std::string Whole(const std::vector<Choice>& choices, const TokenUsage& usage) const;

  // Each appends one event of a stream, "data: {...}\n\n". The role is the first of a chat's
  // choice. `usage` is null unless each chunk has it.
  void AppendRole(int index, const TokenUsage* usage, std::string* out) const;
  // `logprobs` are of tokens that no event before had. `chars` are the characters of the choice's
  // text before this one.
  void AppendText(int index, absl::string_view text, Logprobs logprobs, size_t chars,
                  const TokenUsage* usage, std::string* out) const;
  void AppendToolCall(int index, const ToolCallPiece& piece, Logprobs logprobs,
                      const TokenUsage* usage, std::string* out) const;
  // Reads no text and no logprobs of the choice.
  void AppendFinish(int index, const Choice& choice, Logprobs logprobs, const TokenUsage* usage,
                    std::string* out) const;
  void AppendUsage(const TokenUsage& usage, std::string* out) const;
  static void AppendError(absl::string_view error_body, std::string* out);
  static void AppendDone(std::string* out);

 private:
  void BeginChunk(int index, std::string* out) const;
  void EndChunk(const TokenUsage* usage, std::string* out) const;
  // The field, null without logprobs.
  void AppendLogprobs(Logprobs logprobs, size_t chars, std::string* out) const;
  void AppendChoice(size_t index, const Choice& choice, std::string* out) const;
  // Why a choice ended, and its costs in the cache.
  void AppendEnd(const Choice& choice, std::string* out) const;

  const bool chat_;
  const bool show_cache_;
  const bool named_tool_;   // its calls do not count as the reason of the end
  const bool usage_later_;  // chunks before the last say that they have none
  const std::optional<uint32_t> top_logprobs_;
  std::string whole_;  // the beginning of a whole answer, up to its choices
  std::string chunk_;  // likewise of a chunk
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_ANSWER_H_
