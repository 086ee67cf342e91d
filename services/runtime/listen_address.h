// ListenAddress is an address that a server listens on, "unix:/absolute/path" or "host:port" (such
// as "[::1]:8000" or "*:0").
#ifndef FOLIO_SERVICES_RUNTIME_LISTEN_ADDRESS_H_
#define FOLIO_SERVICES_RUNTIME_LISTEN_ADDRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace folio {

struct ListenAddress {
  std::string unix_path;  // set for a Unix socket, which has no host and port
  std::string host;       // "*" becomes "[::]"
  uint16_t port = 0;      // 0 for any free port

  bool is_unix() const { return !unix_path.empty(); }
  // The form that gRPC expects, such as "unix:/path", "127.0.0.1:8000" or "[::1]:8000".
  std::string ToString() const;
};

// INVALID_ARGUMENT says what is wrong and which forms are expected.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// Parses the values of a flag such as --listen, which must be at least one address and all
// different. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<ListenAddress>> ParseListenFlag(absl::string_view flag,
                                                           const std::vector<std::string>& values);

// INVALID_ARGUMENT names `flag` if one of its addresses is among `taken`, those of the flag
// `other`. Port 0 is never taken.
absl::Status CheckNotTaken(absl::string_view flag, const std::vector<ListenAddress>& addresses,
                           absl::string_view other, const std::vector<ListenAddress>& taken);

// Makes the directory of a socket (one level, mode 0700) if it does not exist.
absl::Status MakeSocketDirectory(const std::string& socket_path);
// The same for each of the addresses that is a Unix socket.
absl::Status MakeSocketDirectories(absl::Span<const ListenAddress> addresses);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_LISTEN_ADDRESS_H_
