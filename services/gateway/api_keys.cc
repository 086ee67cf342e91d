#include "services/gateway/api_keys.h"

#include <openssl/evp.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/base/fair_turns.h"
#include "services/base/invalid_argument.h"
#include "services/base/secrets_match.h"
#include "services/runtime/logging.h"

namespace folio::gateway {
namespace {

constexpr size_t kHashBytes = 32;

// Changes with the file. Empty if there is none.
std::string StampOf(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return "";
  return absl::StrCat(file.st_ino, " ", file.st_size, " ", file.st_mtim.tv_sec, " ",
                      file.st_mtim.tv_nsec);
}

bool IsHash(absl::string_view text) {
  if (text.size() != 2 * kHashBytes) return false;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

}  // namespace

std::string Sha256(absl::string_view text) {
  std::array<unsigned char, kHashBytes> hash = {};
  EVP_Digest(text.data(), text.size(), hash.data(), nullptr, EVP_sha256(), nullptr);
  return {hash.begin(), hash.end()};
}

absl::StatusOr<std::vector<ApiKey>> ParseApiKeys(absl::string_view text) {
  std::vector<ApiKey> keys;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    const bool is_operator = words.size() == 3 && words[2] == "operator";
    if ((words.size() != 2 && !is_operator) || !IsHash(words[0])) {
      return InvalidArgument(
          "line ", number,
          " is not the SHA-256 of a key in 64 hexadecimal digits, a tenant, and perhaps "
          "the word operator");
    }
    if (words[1].size() > kMaxTenantBytes) {
      return InvalidArgument("line ", number, ": the tenant is longer than ", kMaxTenantBytes,
                             " bytes");
    }
    keys.push_back({absl::HexStringToBytes(words[0]), std::string(words[1]), is_operator});
  }
  return keys;
}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::Load(const std::string& path) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path));
  const absl::MutexLock lock(&keys->mutex_);
  if (absl::Status status = keys->Read(); !status.ok()) return status;
  return keys;
}

absl::Status ApiKeys::Read() {
  looked_ = SteadyNow();
  std::string stamp = StampOf(path_);
  std::ifstream file(path_);
  if (stamp.empty() || !file) {
    return absl::NotFoundError(absl::StrCat(path_, ": there is no such file that can be read"));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  stamp_ = std::move(stamp);
  auto keys = ParseApiKeys(text);
  if (!keys.ok()) return InvalidArgument(path_, ": ", keys.status().message());
  keys_ = *std::move(keys);
  return absl::OkStatus();
}

void ApiKeys::ReadIfChanged() {
  const SteadyTime now = SteadyNow();
  if (now - looked_ < absl::Seconds(1)) return;
  looked_ = now;
  if (StampOf(path_) == stamp_) return;
  if (const absl::Status status = Read(); status.ok()) {
    log::Info("API keys read again", {{"path", path_}, {"keys", keys_.size()}});
  } else {
    log::Error("API keys are wrong, so the old ones count", {{"reason", status}});
  }
}

std::optional<KeyHolder> ApiKeys::HolderOf(absl::string_view key) {
  const std::string hash = Sha256(key);
  const absl::MutexLock lock(&mutex_);
  ReadIfChanged();
  const ApiKey* found = nullptr;
  for (const ApiKey& one : keys_) {
    if (SecretsMatch(one.hash, hash)) found = &one;
  }
  if (found == nullptr) return std::nullopt;
  return KeyHolder{found->tenant, found->is_operator};
}

}  // namespace folio::gateway
