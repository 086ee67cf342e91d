// These functions make the variables of a chat template out of a chat, as JSON. They are pure.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_CHAT_VALUES_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_CHAT_VALUES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/model/tokenizer/chat.h"

namespace folio::model {

// An object of the messages with their fields, the tools, if there are some, and the arguments.
// INVALID_ARGUMENT names the part that is not UTF-8, not the JSON that chat.h asks for, nested too
// deep or too much, or that would override another one.
absl::StatusOr<nlohmann::ordered_json> ChatValues(absl::Span<const Message> messages,
                                                  const ChatOptions& options);

// All texts in the values and all names of their fields. They live as long as `values`.
std::vector<absl::string_view> TextsOf(const nlohmann::ordered_json& values);

// The values with each of these texts and names replaced.
nlohmann::ordered_json WithTexts(const nlohmann::ordered_json& values,
                                 absl::FunctionRef<std::string(const std::string&)> replace);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_CHAT_VALUES_H_
