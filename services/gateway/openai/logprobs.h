// These functions write log-probabilities in the two forms of OpenAI's API.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_LOGPROBS_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_LOGPROBS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "folio/v1/inference.pb.h"

namespace folio::gateway {

// The value of a log-probability that is not known, or that is that of probability 0. JSON has
// neither NaN nor infinity.
inline constexpr char kUnknownLogprob[] = "-9999.0";

using Logprobs = absl::Span<const folio::v1::TokenLogprob* const>;
// Pointers into a vector or a repeated field, which is borrowed.
std::vector<const folio::v1::TokenLogprob*> PointersTo(const auto& logprobs) {
  std::vector<const folio::v1::TokenLogprob*> pointers;
  pointers.reserve(static_cast<size_t>(logprobs.size()));
  for (const folio::v1::TokenLogprob& logprob : logprobs) pointers.push_back(&logprob);
  return pointers;
}

// The object of a chat, with a list "content" that has an object for each token.
void AppendChatLogprobs(Logprobs tokens, uint32_t top, std::string* out);
// The object of a completion, with the lists "tokens", "token_logprobs", "top_logprobs" and
// "text_offset". `offset` is that of the first token, in characters.
void AppendCompletionLogprobs(Logprobs tokens, uint32_t top, size_t offset, std::string* out);

// The characters of UTF-8.
size_t CountChars(absl::string_view text);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_LOGPROBS_H_
