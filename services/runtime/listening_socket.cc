#include "services/runtime/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/runtime/unix_socket.h"

namespace folio {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

union TcpAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// It has the sockets at all addresses of a host, or none and an errno.
struct Attempt {
  std::vector<UniqueFd> sockets;
  uint16_t port = 0;
  int error = 0;
};

absl::Status CannotListen(const ListenAddress& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
}

absl::string_view Fix(int error) {
  switch (error) {
    case EADDRINUSE:
      return "stop the program that uses the port, or choose another port";
    case EADDRNOTAVAIL:
      return "give an address of this machine, or * for all of them";
    case EACCES:
      return "choose a port above 1023, or give the process the right to lower ones";
    case EAFNOSUPPORT:
      return "the machine or the unit (RestrictAddressFamilies=) must allow such addresses";
    default:
      return "check the address and the limits of the process";
  }
}

// Whether the machine may simply not have this family of addresses.
bool IsMissing(int error) { return error == EAFNOSUPPORT || error == EADDRNOTAVAIL; }

absl::StatusOr<Addresses> Resolve(const ListenAddress& address, const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host.c_str(), absl::StrCat(address.port).c_str(), &hints, &list);
  if (failed == 0) return Addresses(list);
  return CannotListen(address,
                      absl::StrCat("the host is not known (", gai_strerror(failed),
                                   "); give an address of this machine, or * for all of them"));
}

// Accepted connections inherit these. They mean nothing for a Unix socket, which has neither the
// delay nor another machine behind it, and some of them fail there.
void SetTcpOptions(int socket) {
  const auto set = [socket](int level, int option, int value) {
    (void)setsockopt(socket, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A connection whose machine is gone ends after two minutes. A program that is alive need not
  // read for that, because its kernel answers.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

// Returns 0 or an errno.
int ListenAt(int fd, const addrinfo& where, uint16_t port) {
  TcpAddress to = {};
  if (where.ai_addrlen > sizeof(to)) return EAFNOSUPPORT;
  std::memcpy(&to, where.ai_addr, where.ai_addrlen);
  const int on = 1, off = 0;
  if (where.ai_family == AF_INET6) {
    to.v6.sin6_port = htons(port);
    // [::] takes connections of both families.
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) return errno;
  } else {
    to.v4.sin_port = htons(port);
  }
  SetTcpOptions(fd);
  // A server that starts again must not wait until connections of the last one have timed out. At a
  // port that another socket listens on, Linux refuses a second one all the same. It would not with
  // SO_REUSEPORT, and each server would get half of the calls.
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd, &to.any, where.ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
    return errno;
  }
  return 0;
}

uint16_t PortOf(int fd) {
  TcpAddress bound = {};
  socklen_t length = sizeof(bound);
  if (getsockname(fd, &bound.any, &length) != 0) return 0;
  return ntohs(bound.any.sa_family == AF_INET6 ? bound.v6.sin6_port : bound.v4.sin_port);
}

// Whether it is 127.0.0.0/8 or ::1, or no address of TCP.
bool IsLoopback(const TcpAddress& address) {
  const auto is_loopback = [](uint32_t v4) { return ntohl(v4) >> 24 == IN_LOOPBACKNET; };
  if (address.any.sa_family == AF_INET) return is_loopback(address.v4.sin_addr.s_addr);
  if (address.any.sa_family != AF_INET6) return true;
  const in6_addr& v6 = address.v6.sin6_addr;
  uint32_t v4 = 0;
  std::memcpy(&v4, &v6.s6_addr[12], sizeof(v4));
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && is_loopback(v4));
}

// Whether a socket is a Unix socket, or TCP at an address of loopback.
bool IsLocal(int fd) {
  TcpAddress bound = {};
  socklen_t length = sizeof(bound);
  return getsockname(fd, &bound.any, &length) == 0 && IsLoopback(bound);
}

std::string HostOf(const ListenAddress& address) {
  return std::string(absl::StripSuffix(absl::StripPrefix(address.host, "["), "]"));
}

// A name may have addresses of a family that the machine lacks, as localhost often has. Any other
// error is one, or half of the clients would find another program at the port.
Attempt ListenAtAll(const addrinfo* list, uint16_t port) {
  Attempt all;
  all.port = port;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    UniqueFd fd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int error = fd.valid() ? ListenAt(fd.get(), *at, all.port) : errno;
    if (error != 0) {
      all.error = error;
      if (IsMissing(error)) continue;
      all.sockets.clear();
      return all;
    }
    if (all.port == 0) all.port = PortOf(fd.get());
    all.sockets.push_back(std::move(fd));
  }
  if (!all.sockets.empty()) all.error = 0;
  return all;
}

absl::StatusOr<Attempt> ListenTcp(const ListenAddress& address) {
  std::string host = HostOf(address);
  const bool everywhere = host == "::" || host == "0.0.0.0";
  if (everywhere) host = "::";
  auto list = Resolve(address, host);
  if (!list.ok()) return list.status();
  Attempt attempt = ListenAtAll(list->get(), address.port);
  // The port that was free at the first address may be taken at the second.
  for (int tries = 0; tries < 8 && attempt.error == EADDRINUSE && address.port == 0; ++tries) {
    attempt = ListenAtAll(list->get(), address.port);
  }
  if (everywhere && IsMissing(attempt.error)) {
    list = Resolve(address, "0.0.0.0");
    if (!list.ok()) return list.status();
    attempt = ListenAtAll(list->get(), address.port);
  }
  if (attempt.error == 0) return attempt;
  const std::string reason = std::strerror(attempt.error);
  return CannotListen(address, absl::StrCat(reason, "; ", Fix(attempt.error)));
}

}  // namespace

ListeningSocket::ListeningSocket(ListenAddress address, std::vector<UniqueFd> sockets,
                                 std::string file)
    : address_(std::move(address)), sockets_(std::move(sockets)), file_(std::move(file)) {}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : address_(std::move(other.address_)),
      sockets_(std::move(other.sockets_)),
      file_(std::exchange(other.file_, {})) {}

ListeningSocket::~ListeningSocket() {
  // While the socket still listens, so that a successor's file at the same path stays.
  if (!file_.empty()) unlink(file_.c_str());
}

absl::StatusOr<ListeningSocket> ListeningSocket::Open(const ListenAddress& address, mode_t mode) {
  std::vector<UniqueFd> sockets;
  if (address.is_unix()) {
    auto socket = ListenUnix(address.unix_path, mode, SOCK_STREAM | SOCK_NONBLOCK);
    if (absl::IsFailedPrecondition(socket.status())) return socket.status();
    if (!socket.ok()) {
      return absl::UnavailableError(absl::StrCat(
          socket.status().message(), "; its directory must exist and let this process write"));
    }
    sockets.push_back(*std::move(socket));
    return ListeningSocket(address, std::move(sockets), address.unix_path);
  }
  auto attempt = ListenTcp(address);
  if (!attempt.ok()) return attempt.status();
  ListenAddress bound = address;
  bound.port = attempt->port;
  return ListeningSocket(std::move(bound), std::move(attempt->sockets), "");
}

bool ListeningSocket::is_open_to_network() const {
  return std::any_of(sockets_.begin(), sockets_.end(),
                     [](const UniqueFd& socket) { return !IsLocal(socket.get()); });
}

bool IsOpenToNetwork(const ListenAddress& address) {
  if (address.is_unix()) return false;
  const auto list = Resolve(address, HostOf(address));
  if (!list.ok()) return false;
  for (const addrinfo* at = list->get(); at != nullptr; at = at->ai_next) {
    TcpAddress to = {};
    if (at->ai_addrlen > sizeof(to)) continue;
    std::memcpy(&to, at->ai_addr, at->ai_addrlen);
    if (!IsLoopback(to)) return true;
  }
  return false;
}

ListeningSocket ListeningSocket::Adopt(const ListenAddress& address, UniqueFd socket) {
  SetTcpOptions(socket.get());
  std::vector<UniqueFd> sockets;
  sockets.push_back(std::move(socket));
  return ListeningSocket(address, std::move(sockets), "");
}

}  // namespace folio
