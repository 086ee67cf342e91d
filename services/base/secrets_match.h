// SecretsMatch compares a secret token with what a caller shows for it.
#ifndef FOLIO_SERVICES_BASE_SECRETS_MATCH_H_
#define FOLIO_SERVICES_BASE_SECRETS_MATCH_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace folio {

// Takes a time that does not depend on how much of the token is right, so that a caller cannot
// guess it byte by byte. An empty `own` token matches nothing.
inline bool SecretsMatch(absl::string_view own, absl::string_view shown) {
  if (own.empty() || shown.size() != own.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    difference |= static_cast<unsigned char>(own[i]) ^ static_cast<unsigned char>(shown[i]);
  }
  return difference == 0;
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SECRETS_MATCH_H_
