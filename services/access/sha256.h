// This header hashes secrets, so that a file of them holds none, and reads what `sha256sum` writes.
// Both functions are pure.
#ifndef FOLIO_SERVICES_ACCESS_SHA256_H_
#define FOLIO_SERVICES_ACCESS_SHA256_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::access {

// 32 bytes.
std::string Sha256(absl::string_view text);

// The 32 bytes that 64 hexadecimal digits stand for, in either case. Nothing for any other text.
std::optional<std::string> ParseSha256(absl::string_view digits);

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_SHA256_H_
