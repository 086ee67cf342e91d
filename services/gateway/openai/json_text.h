// ParseObject reads the body of a request, and AppendJsonString writes a string of an answer.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_JSON_TEXT_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_JSON_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/openai/json_map.h"

namespace folio::gateway {

// Code that walks a value calls itself for each level, so that a deeper one could use up its stack.
inline constexpr int kMostJsonDepth = 64;

// INVALID_ARGUMENT says what is wrong and where. Text that is not UTF-8 is wrong. If a
// key comes twice, the last value counts, as in Python.
absl::StatusOr<Json> ParseJson(absl::string_view text);
// The same for an object. Another value is INVALID_ARGUMENT too.
absl::StatusOr<Json> ParseObject(absl::string_view text);

// Appends the text with its quotation marks. It must be UTF-8.
void AppendJsonString(absl::string_view text, std::string* out);

// The value as JSON in one line.
std::string JsonText(const Json& value);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_JSON_TEXT_H_
