// These functions are a client's end of a connection: they connect and wait for what comes.
#ifndef FOLIO_TESTS_COMMON_SOCKETS_H_
#define FOLIO_TESTS_COMMON_SOCKETS_H_

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/check.h"
#include "services/base/unique_fd.h"

namespace folio::testing {

// True once `condition` is, false if that takes longer than any test should.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

inline UniqueFd UnixStream() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

inline bool ConnectTo(const UniqueFd& client, const std::string& path) {
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  FOLIO_CHECK(path.size() < sizeof(to.sun_path));
  std::copy(path.begin(), path.end(), to.sun_path);
  return connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
}

// Invalid if nothing listens there. `host` is numeric.
inline UniqueFd ConnectTcp(const std::string& host, uint16_t port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  FOLIO_CHECK(getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) == 0);
  UniqueFd client(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (client.valid() && connect(client.get(), found->ai_addr, found->ai_addrlen) != 0) {
    client.Reset();
  }
  freeaddrinfo(found);
  return client;
}

// Reads what there is. True if the other side has closed.
inline bool IsClosed(const UniqueFd& client) {
  char bytes[4096];
  for (;;) {
    const ssize_t got = recv(client.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0) return false;
  }
}

// While it lives, this process can open no further descriptor.
class NoFreeDescriptor {
 public:
  NoFreeDescriptor() {
    FOLIO_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit none = before_;
    // It gets the lowest free number, below which all are open.
    const UniqueFd lowest(open("/dev/null", O_RDONLY | O_CLOEXEC));
    FOLIO_CHECK(lowest.valid());
    none.rlim_cur = static_cast<rlim_t>(lowest.get());
    FOLIO_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoFreeDescriptor() { FOLIO_CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  NoFreeDescriptor(const NoFreeDescriptor&) = delete;
  NoFreeDescriptor& operator=(const NoFreeDescriptor&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_COMMON_SOCKETS_H_
