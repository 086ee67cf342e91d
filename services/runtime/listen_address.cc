#include "services/runtime/listen_address.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/runtime/flags.h"

namespace folio {
namespace {

absl::Status Wrong(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" ", why, "; write unix:/absolute/path or host:port"));
}

}  // namespace

std::string ListenAddress::ToString() const {
  return is_unix() ? absl::StrCat("unix:", unix_path) : absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  ListenAddress address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    // "unix:///path" is a common spelling of "unix:/path".
    if (absl::StartsWith(rest, "///")) rest.remove_prefix(2);
    if (rest.size() < 2 || rest[0] != '/' || rest.back() == '/') {
      return Wrong(text, "is not an absolute socket path");
    }
    if (rest.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return Wrong(text,
                   absl::StrCat("has a path of ", rest.size(), " bytes, longer than the ",
                                sizeof(sockaddr_un{}.sun_path) - 1, " a Unix socket may have"));
    }
    address.unix_path = std::string(rest);
    return address;
  }
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return Wrong(text, "has no port");
  const absl::string_view host = rest.substr(0, colon);
  uint32_t port = 0;
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &port) || port > 65535) {
    return Wrong(text, "has a port that is not a number from 0 to 65535");
  }
  if (host.empty()) return Wrong(text, "has no host (* is every interface)");
  if (host.find_first_of("/ ,") != absl::string_view::npos) return Wrong(text, "has a bad host");
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != absl::string_view::npos) {
    return Wrong(text, "has an IPv6 host without brackets");
  }
  address.host = host == "*" ? "[::]" : std::string(host);
  address.port = static_cast<uint16_t>(port);
  return address;
}

absl::StatusOr<std::vector<ListenAddress>> ParseListenFlag(absl::string_view flag,
                                                           const std::vector<std::string>& values) {
  std::vector<ListenAddress> addresses;
  for (const std::string& text : values) {
    auto address = ParseListenAddress(text);
    if (!address.ok()) return BadFlag(flag, text, address.status().message());
    for (const ListenAddress& other : addresses) {
      if (other.ToString() == address->ToString()) return BadFlag(flag, text, "is given twice");
    }
    addresses.push_back(*std::move(address));
  }
  if (addresses.empty()) {
    return BadFlag(flag, "", "give at least one address, unix:/path or host:port");
  }
  return addresses;
}

absl::Status CheckNotTaken(absl::string_view flag, const std::vector<ListenAddress>& addresses,
                           absl::string_view other, const std::vector<ListenAddress>& taken) {
  for (const ListenAddress& address : addresses) {
    if (address.port == 0 && !address.is_unix()) continue;
    for (const ListenAddress& one : taken) {
      if (address.ToString() != one.ToString()) continue;
      return BadFlag(flag, address.ToString(),
                     absl::StrCat("is an address of --", other, "; choose another"));
    }
  }
  return absl::OkStatus();
}

absl::Status MakeSocketDirectory(const std::string& socket_path) {
  const size_t slash = socket_path.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  const std::string directory = socket_path.substr(0, slash);
  if (mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the directory ", directory));
}

absl::Status MakeSocketDirectories(absl::Span<const ListenAddress> addresses) {
  for (const ListenAddress& address : addresses) {
    if (!address.is_unix()) continue;
    if (absl::Status status = MakeSocketDirectory(address.unix_path); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace folio
