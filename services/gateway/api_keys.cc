#include "services/gateway/api_keys.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "services/access/sha256.h"
#include "services/base/fair_turns.h"
#include "services/base/invalid_argument.h"
#include "services/base/secrets_match.h"
#include "services/runtime/logging.h"

namespace folio::gateway {

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
    std::optional<std::string> hash = access::ParseSha256(words[0]);
    if ((words.size() != 2 && !is_operator) || !hash.has_value()) {
      return InvalidArgument(
          "line ", number,
          " is not the SHA-256 of a key in 64 hexadecimal digits, a tenant, and perhaps "
          "the word operator");
    }
    if (words[1].size() > kMaxTenantBytes) {
      return InvalidArgument("line ", number, ": the tenant is longer than ", kMaxTenantBytes,
                             " bytes");
    }
    keys.push_back({*std::move(hash), std::string(words[1]), is_operator});
  }
  return keys;
}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::Load(const std::string& path) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path));
  const absl::MutexLock lock(&keys->mutex_);
  if (absl::Status status = keys->Use(keys->file_.Read()); !status.ok()) return status;
  return keys;
}

absl::Status ApiKeys::Use(absl::StatusOr<std::string> text) {
  if (!text.ok()) return text.status();
  auto keys = ParseApiKeys(*text);
  if (!keys.ok()) return InvalidArgument(file_.path(), ": ", keys.status().message());
  keys_ = *std::move(keys);
  return absl::OkStatus();
}

void ApiKeys::ReadIfChanged() {
  auto text = file_.ReadIfChanged();
  if (!text.has_value()) return;
  if (const absl::Status status = Use(*std::move(text)); status.ok()) {
    log::Info("API keys read again", {{"path", file_.path()}, {"keys", keys_.size()}});
  } else {
    log::Error("API keys are wrong, so the old ones count", {{"reason", status}});
  }
}

std::optional<KeyHolder> ApiKeys::HolderOf(absl::string_view key) {
  const std::string hash = access::Sha256(key);
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
