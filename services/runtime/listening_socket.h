// ListeningSocket is where a server accepts connections: a Unix socket, or TCP at an address.
#ifndef FOLIO_SERVICES_RUNTIME_LISTENING_SOCKET_H_
#define FOLIO_SERVICES_RUNTIME_LISTENING_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/unique_fd.h"
#include "services/runtime/listen_address.h"

namespace folio {

// Its descriptors do not block. TCP connections inherit TCP_NODELAY from it, because a token must
// not wait until the client has acknowledged the one before. Move-only. Thread-compatible.
class ListeningSocket {
 public:
  // Binds and listens. The file of a Unix socket gets `mode`, and replaces the file of a process
  // that has ended. If the host is a name with several addresses, then all of them are listened on,
  // at one port. "[::]" and "0.0.0.0" are both every interface, with IPv4 and, if the machine has
  // it, IPv6.
  // FAILED_PRECONDITION if another process listens on the Unix socket, UNAVAILABLE if an address
  // cannot be bound. The message names the address, the reason and the fix.
  static absl::StatusOr<ListeningSocket> Open(const ListenAddress& address, mode_t mode);

  // Takes a socket that listens already and does not block, and whose file belongs to others.
  static ListeningSocket Adopt(const ListenAddress& address, UniqueFd socket);

  // Removes the socket file that Open made, and then closes.
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  // As given, with the port that was chosen for 0.
  const ListenAddress& address() const { return address_; }
  // One, or several if the host's name has several addresses.
  const std::vector<UniqueFd>& sockets() const { return sockets_; }
  // Whether other machines may reach it: it is TCP, and at an address that is not loopback.
  bool is_open_to_network() const;

 private:
  ListeningSocket(ListenAddress address, std::vector<UniqueFd> sockets, std::string file);

  ListenAddress address_;
  std::vector<UniqueFd> sockets_;
  std::string file_;  // empty if there is none to remove
};

// The same as ListeningSocket::is_open_to_network before one listens. False if the host is not
// known, with which ListeningSocket::Open fails.
bool IsOpenToNetwork(const ListenAddress& address);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_LISTENING_SOCKET_H_
