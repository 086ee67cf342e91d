#include "services/runtime/service_manager.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/runtime/logging.h"

namespace folio {
namespace {

constexpr int kFirstDescriptor = 3;  // SD_LISTEN_FDS_START

template <typename Address>
const Address& As(const sockaddr_storage& storage) {
  return reinterpret_cast<const Address&>(storage);
}

absl::StatusOr<std::string> AddressOf(int fd) {
  const auto wrong = [fd](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("LISTEN_FDS: descriptor ", fd, " ", why));
  };
  int listens = 0;
  socklen_t length = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
    return wrong("is not a listening socket");
  }
  sockaddr_storage storage = {};
  length = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return wrong("has no address");
  }
  std::array<char, INET6_ADDRSTRLEN> text = {};
  switch (storage.ss_family) {
    case AF_UNIX: {
      const char* path = As<sockaddr_un>(storage).sun_path;
      if (length <= offsetof(sockaddr_un, sun_path) || *path != '/') {
        return wrong("is not bound to an absolute path");
      }
      return absl::StrCat("unix:", path);
    }
    case AF_INET:
      inet_ntop(AF_INET, &As<sockaddr_in>(storage).sin_addr, text.data(), text.size());
      return absl::StrCat(text.data(), ":", ntohs(As<sockaddr_in>(storage).sin_port));
    case AF_INET6:
      inet_ntop(AF_INET6, &As<sockaddr_in6>(storage).sin6_addr, text.data(), text.size());
      return absl::StrCat("[", text.data(), "]:", ntohs(As<sockaddr_in6>(storage).sin6_port));
    default:
      return wrong("is neither a Unix socket nor a TCP socket");
  }
}

std::string TakeVariable(const char* name) {
  const char* value = std::getenv(name);
  std::string copy = value == nullptr ? "" : value;
  unsetenv(name);
  return copy;
}

}  // namespace

absl::StatusOr<InheritedSockets> InheritedSockets::Take() {
  const std::string pid_text = TakeVariable("LISTEN_PID");
  const std::string count_text = TakeVariable("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
  InheritedSockets inherited;
  int pid = 0, count = 0;
  // The variables may be meant for a parent of this process.
  if (!absl::SimpleAtoi(pid_text, &pid) || pid != getpid()) return inherited;
  if (!absl::SimpleAtoi(count_text, &count) || count < 0 || count > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("LISTEN_FDS: \"", count_text, "\" is not a number from 0 to 64"));
  }
  for (int fd = kFirstDescriptor; fd < kFirstDescriptor + count; ++fd) {
    auto address = AddressOf(fd);
    if (!address.ok()) return address.status();
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    inherited.sockets_[*address] = UniqueFd(fd);
  }
  return inherited;
}

UniqueFd InheritedSockets::Find(const std::string& address) {
  const auto found = sockets_.find(address);
  if (found == sockets_.end()) return UniqueFd();
  UniqueFd socket = std::move(found->second);
  sockets_.erase(found);
  return socket;
}

absl::Status InheritedSockets::CheckAllUsed() const {
  if (sockets_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the service manager passed a socket at ", sockets_.begin()->first,
                   ", which no flag names; let --listen and the socket unit agree"));
}

void NotifyServiceManager(absl::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if ((*path != '/' && *path != '@') || length >= sizeof(address.sun_path)) {
    log::Warning("NOTIFY_SOCKET is not an address", {{"value", path}});
    return;
  }
  std::copy(path, path + length, address.sun_path);
  if (*path == '@') address.sun_path[0] = '\0';  // an abstract socket
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (!socket.valid() || sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), bytes) < 0) {
    log::Warning("cannot notify the service manager", {{"state", state}, {"errno", errno}});
  }
}

}  // namespace folio
