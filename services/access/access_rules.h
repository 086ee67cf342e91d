// AccessRules says who may call a daemon and do what: the contents of the file that --access names.
// All types here are plain values.
#ifndef FOLIO_SERVICES_ACCESS_ACCESS_RULES_H_
#define FOLIO_SERVICES_ACCESS_ACCESS_RULES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio::access {

// A Right is what an operator may do. Each one includes those before it.
enum class Right : uint8_t { kNone, kView, kSteer };

// For which tenants a caller may ask.
enum class TenantScope : uint8_t { kNone, kOne, kAny };

// A limit that is not set does not exist.
struct TenantLimits {
  std::optional<uint32_t> sequences = {};            // open at a time
  std::optional<uint32_t> pages = {};                // that these may come to hold together
  std::optional<uint32_t> requests_per_minute = {};  // at least 1
  // The most urgent priority that its requests may have. Lower numbers come first.
  std::optional<int32_t> priority = {};

  friend bool operator==(const TenantLimits&, const TenantLimits&) = default;
};

// A Grant is what a credential gives to the one who shows it.
struct Grant {
  int line = 0;  // of the file, for the log
  TenantScope scope = TenantScope::kNone;
  std::string tenant = {};  // with kOne
  Right right = Right::kNone;

  friend bool operator==(const Grant&, const Grant&) = default;
};

struct TokenGrant {
  std::string hash;  // SHA-256 of the token, 32 bytes
  Grant grant;
};

struct AccessRules {
  std::map<std::string, TenantLimits, std::less<>> tenants;
  std::vector<TokenGrant> tokens;
  // By a name in a client's certificate.
  std::map<std::string, Grant, std::less<>> certificates;
  // It is for calls over a Unix socket that show no token.
  std::optional<Grant> unix_socket;
};

// The most that may be given.
inline constexpr uint32_t kMaxRequestsPerMinute = 1'000'000;

// So many tenants and so many tokens may be in a file.
inline constexpr size_t kMaxRules = 10'000;

// One record a line; docs/operating.md describes them. Empty lines say nothing, and a word that
// begins with # and all behind it is a comment. INVALID_ARGUMENT names the line and the fix.
absl::StatusOr<AccessRules> ParseAccessRules(absl::string_view text);

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_ACCESS_RULES_H_
