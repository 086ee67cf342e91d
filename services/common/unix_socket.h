// Unix sockets that pass file descriptors (SCM_RIGHTS) and know who is at the other end
// (SO_PEERCRED). Sockets are SOCK_SEQPACKET: one send is one message. Paths are at most 107 bytes.
// Free functions; any thread.
#ifndef FOLIO_SERVICES_COMMON_UNIX_SOCKET_H_
#define FOLIO_SERVICES_COMMON_UNIX_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/common/unique_fd.h"

namespace folio {

struct PeerCredentials {
  pid_t pid = 0;  // 0: the process is not visible from our PID namespace
  uid_t uid = 0;
  gid_t gid = 0;
};

struct FdMessage {
  std::string text;           // empty together with no fds: the peer has closed
  std::vector<UniqueFd> fds;  // close-on-exec
};

// A socket file at `path` left behind by a process that no longer listens is removed; one that
// answers is FAILED_PRECONDITION, as is a file that is no socket. OK when nothing is there.
absl::Status RemoveStaleSocket(const std::string& path);

// Binds and listens; the file's mode becomes `mode`. Replaces a stale socket file.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, mode_t mode = 0600);

// UNAVAILABLE when nobody listens there.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path);

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket);

// The descriptors stay the caller's; the peer gets duplicates. Never raises SIGPIPE.
absl::Status SendMessage(int socket, absl::string_view text, absl::Span<const int> fds = {});

// Waits up to `timeout` (DEADLINE_EXCEEDED) for one message of at most `max_bytes` and `max_fds`;
// a longer one is INVALID_ARGUMENT and its descriptors are closed.
absl::StatusOr<FdMessage> ReceiveMessage(int socket, absl::Duration timeout,
                                         size_t max_bytes = 4096, size_t max_fds = 8);

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_UNIX_SOCKET_H_
