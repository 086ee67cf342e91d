#include "services/access/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace folio::access {
namespace {

constexpr size_t kHashBytes = 32;

}  // namespace

std::string Sha256(absl::string_view text) {
  std::array<unsigned char, kHashBytes> hash = {};
  EVP_Digest(text.data(), text.size(), hash.data(), nullptr, EVP_sha256(), nullptr);
  return {hash.begin(), hash.end()};
}

std::optional<std::string> ParseSha256(absl::string_view digits) {
  if (digits.size() != 2 * kHashBytes) return std::nullopt;
  for (const char c : digits) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
  }
  return absl::HexStringToBytes(digits);
}

}  // namespace folio::access
