// NewId makes the ids of answers, requests and tool calls.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_IDS_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_IDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace folio::gateway {

// The prefix and 32 hexadecimal digits by chance. Any thread.
std::string NewId(absl::string_view prefix);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_IDS_H_
