#include "services/runtime/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "services/base/steady_time.h"

namespace folio {
namespace {

absl::StatusOr<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path \"", path, "\" has ", path.size(),
                                                   " bytes; it must have 1 to ",
                                                   sizeof(address.sun_path) - 1));
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

absl::StatusOr<UniqueFd> NewSocket(int type) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot make a Unix socket");
  return fd;
}

const sockaddr* Generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Takes ownership of a received message's descriptors before it looks at anything else.
std::vector<UniqueFd> TakeFds(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

absl::Status RemoveStaleSocket(const std::string& path) {
  auto address = Address(path);
  if (!address.ok()) return address.status();
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", path));
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " exists and is not a socket; remove it or choose another path"));
  }
  // The type of the listening socket is unknown. connect() tells a wrong type (EPROTOTYPE) from a
  // dead socket (ECONNREFUSED), and a full backlog of a live socket is EAGAIN.
  auto probe = NewSocket(SOCK_STREAM | SOCK_NONBLOCK);
  if (!probe.ok()) return probe.status();
  if (connect(probe->get(), Generic(*address), sizeof(*address)) == 0 || errno != ECONNREFUSED) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process listens on ", path, "; stop it or choose another path"));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot remove the stale socket ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, mode_t mode, int type) {
  if (absl::Status status = RemoveStaleSocket(path); !status.ok()) return status;
  auto address = Address(path);
  if (!address.ok()) return address.status();
  auto fd = NewSocket(type);
  if (!fd.ok()) return fd.status();
  // The mode is set before listen(), so that no client can connect in between.
  if (bind(fd->get(), Generic(*address), sizeof(*address)) != 0 || chmod(path.c_str(), mode) != 0 ||
      listen(fd->get(), SOMAXCONN) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on ", path));
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path) {
  auto address = Address(path);
  if (!address.ok()) return address.status();
  auto fd = NewSocket(SOCK_SEQPACKET);
  if (!fd.ok()) return fd.status();
  if (connect(fd->get(), Generic(*address), sizeof(*address)) != 0) {
    const std::string reason = std::strerror(errno);
    return absl::UnavailableError(absl::StrCat("cannot connect to ", path, ": ", reason));
  }
  return fd;
}

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read the peer's credentials");
  }
  return PeerCredentials{peer.pid, peer.uid, peer.gid};
}

absl::Status SendMessage(int socket, absl::string_view text, absl::Span<const int> fds) {
  iovec body = {const_cast<char*>(text.data()), text.size()};
  std::vector<char> control(fds.empty() ? 0 : CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr header = {};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    const std::string reason = std::strerror(errno);
    return absl::UnavailableError(absl::StrCat("cannot send to the peer: ", reason));
  }
  return absl::OkStatus();
}

absl::StatusOr<FdMessage> ReceiveMessage(int socket, absl::Duration timeout, size_t max_bytes,
                                         size_t max_fds) {
  const SteadyTime deadline = SteadyNow() + timeout;
  pollfd waiting = {socket, POLLIN, 0};
  for (;;) {
    const int64_t left = std::clamp<int64_t>(
        absl::ToInt64Milliseconds(absl::Ceil(deadline - SteadyNow(), absl::Milliseconds(1))), 0,
        1 << 30);
    const int ready = poll(&waiting, 1, static_cast<int>(left));
    if (ready > 0) break;
    if (ready == 0) return absl::DeadlineExceededError("no message from the peer in time");
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "cannot wait for the peer");
  }
  FdMessage message;
  message.text.resize(max_bytes);
  iovec body = {message.text.data(), message.text.size()};
  std::vector<char> control(CMSG_SPACE(std::max<size_t>(max_fds, 1) * sizeof(int)));
  msghdr header = {};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    const std::string reason = std::strerror(errno);
    return absl::UnavailableError(absl::StrCat("cannot receive from the peer: ", reason));
  }
  message.fds = TakeFds(header);
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || message.fds.size() > max_fds) {
    return absl::InvalidArgumentError(absl::StrCat("the peer's message has more than ", max_bytes,
                                                   " bytes or ", max_fds, " descriptors"));
  }
  message.text.resize(got);
  return message;
}

}  // namespace folio
