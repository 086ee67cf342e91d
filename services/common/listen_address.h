// Addresses that a server listens on: "unix:/absolute/path" or "host:port" ("[::1]:8000", "*:0").
#ifndef FOLIO_SERVICES_COMMON_LISTEN_ADDRESS_H_
#define FOLIO_SERVICES_COMMON_LISTEN_ADDRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio {

struct ListenAddress {
  std::string unix_path;  // set: a Unix socket, and host and port are not
  std::string host;       // "*" becomes "[::]"
  uint16_t port = 0;      // 0: any free one

  bool is_unix() const { return !unix_path.empty(); }
  // As gRPC wants it: "unix:/path", "127.0.0.1:8000", "[::1]:8000".
  std::string ToString() const;
};

// INVALID_ARGUMENT says what is wrong and what is expected.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// The values of a --listen flag: at least one address, none twice. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<ListenAddress>> ParseListenFlag(const std::vector<std::string>& values);

// Makes the directory of a socket (one level, mode 0700) when it is not there.
absl::Status MakeSocketDirectory(const std::string& socket_path);

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_LISTEN_ADDRESS_H_
