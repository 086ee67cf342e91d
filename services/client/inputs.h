// These functions are short ways to write the messages of requests.
#ifndef FOLIO_SERVICES_CLIENT_INPUTS_H_
#define FOLIO_SERVICES_CLIENT_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "folio/v1/inference.pb.h"

namespace folio::client {

// Text as it is, in which special tokens are recognised.
folio::v1::Input Text(absl::string_view text);
folio::v1::Input Tokens(absl::Span<const uint32_t> ids);

struct ChatTurn {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
  std::string fields = {};  // a JSON object of more fields, such as tool_calls, or empty
};
// ChatExtras is JSON that the model's template may read besides the messages.
struct ChatExtras {
  std::string tools;               // an array, as OpenAI's API has them, or empty
  std::string template_arguments;  // an object, such as {"enable_thinking": false}, or empty
};
// Rendered by the model's chat template.
folio::v1::Input Chat(const std::vector<ChatTurn>& turns, const ChatExtras& extras = {});
// One user message, after a system message unless `system` is empty.
folio::v1::Input Ask(absl::string_view question, absl::string_view system = "");

// Everything stays in the cache.
folio::v1::CacheOptions FullCache();
// Each layer keeps `budget_tokens` (a multiple of the page size). These are the tokens with the
// highest ||V|| / ||K||, or the first and the most recent ones. For other policies see
// policy_text.h, or fill in the message.
folio::v1::CacheOptions PagedEviction(uint32_t budget_tokens);
folio::v1::CacheOptions StreamingLlm(uint32_t budget_tokens);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_INPUTS_H_
