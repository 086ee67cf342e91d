#include "services/client/call_token.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/client/channel_credentials.h"

namespace folio::client {
namespace {

// Servers take headers of a few KiB.
constexpr size_t kMostTokenBytes = 4096;
constexpr absl::Duration kLook = absl::Seconds(1);

// The token is not in the message.
absl::Status CheckToken(absl::string_view token) {
  if (token.empty()) return absl::InvalidArgumentError("token: is empty");
  if (token.size() > kMostTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("token: is longer than ", kMostTokenBytes, " bytes"));
  }
  if (std::all_of(token.begin(), token.end(),
                  [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "token: has a space or a character that is not printable ASCII");
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  std::string text(kMostTokenBytes + 2, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token: the file \"", path, "\" cannot be read"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (absl::Status s = CheckToken(token); !s.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(s.message(), ", in the file \"", path, "\""));
  }
  return std::string(token);
}

// For an address host:port.
bool IsLoopback(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]" || host == "::1") return true;
  // Not a name that begins so, such as 127.example.
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CallToken>> CallToken::Make(absl::string_view address,
                                                           const ConnectOptions& options) {
  if (options.token.empty() && options.token_file.empty()) return nullptr;
  if (!options.token.empty() && !options.token_file.empty()) {
    return absl::InvalidArgumentError("token: give the token or a file with it, not both");
  }
  if (UseOfTls(address, options.tls) == TlsUse::kPlain && !IsLoopback(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "token: would go to \"", address,
        "\" without encryption, so others could read it on its way: connect with TLS, over a Unix "
        "socket, or over loopback (127.0.0.1)"));
  }
  std::string token = options.token;
  if (options.token_file.empty()) {
    if (absl::Status s = CheckToken(token); !s.ok()) return s;
  } else {
    auto read = ReadToken(options.token_file);
    if (!read.ok()) return read.status();
    token = *std::move(read);
  }
  return std::shared_ptr<CallToken>(new CallToken(std::move(token), options.token_file));
}

std::string CallToken::Header() {
  const absl::MutexLock lock(&mutex_);
  const SteadyTime now = SteadyNow();
  if (!file_.empty() && now - looked_ >= kLook) {
    looked_ = now;
    if (auto read = ReadToken(file_); read.ok()) token_ = *std::move(read);
  }
  return absl::StrCat("Bearer ", token_);
}

}  // namespace folio::client
