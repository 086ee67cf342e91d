// A refusal on one of our sockets is the text "<code> <message>" in place of the answer that was
// asked for. These functions write and read it. Both are pure.
#ifndef FOLIO_SERVICES_RUNTIME_REFUSAL_TEXT_H_
#define FOLIO_SERVICES_RUNTIME_REFUSAL_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace folio {

// Longer messages are cut, so that a refusal always fits what its reader receives at most.
inline constexpr size_t kMaxRefusalBytes = 1024;

// Precondition: `why` is not OK.
std::string RefusalText(const absl::Status& why);

// Nullopt for a text that is not a refusal.
std::optional<absl::Status> ParseRefusal(absl::string_view text);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_REFUSAL_TEXT_H_
