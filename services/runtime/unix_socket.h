// These functions are for Unix sockets that pass file descriptors (SCM_RIGHTS) and identify the
// peer (SO_PEERCRED). Sockets are SOCK_SEQPACKET unless a caller asks for another type, so that one
// send is one message. Paths have at most 107 bytes. Any thread may call them.
#ifndef FOLIO_SERVICES_RUNTIME_UNIX_SOCKET_H_
#define FOLIO_SERVICES_RUNTIME_UNIX_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/base/unique_fd.h"

namespace folio {

struct PeerCredentials {
  pid_t pid = 0;  // 0 if the process is not visible from our PID namespace
  uid_t uid = 0;
  gid_t gid = 0;
};

struct FdMessage {
  std::string text;           // if it is empty and there are no fds, the peer has closed
  std::vector<UniqueFd> fds;  // close-on-exec
};

// Removes a socket file at `path` that a process left behind. FAILED_PRECONDITION if a process
// still listens there, or if the file is not a socket. OK if there is no file.
absl::Status RemoveStaleSocket(const std::string& path);

// Binds and listens, with `mode` as the file's mode. Replaces a stale socket file. `type` is that
// of socket(2) with its flags.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, mode_t mode = 0600,
                                    int type = SOCK_SEQPACKET);

// UNAVAILABLE if no process listens there.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path);

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket);

// The caller keeps the descriptors, and the peer gets duplicates. Never raises SIGPIPE.
absl::Status SendMessage(int socket, absl::string_view text, absl::Span<const int> fds = {});

// Waits up to `timeout` (DEADLINE_EXCEEDED) for one message of at most `max_bytes` and `max_fds`. A
// longer one is INVALID_ARGUMENT and its descriptors are closed.
absl::StatusOr<FdMessage> ReceiveMessage(int socket, absl::Duration timeout,
                                         size_t max_bytes = 4096, size_t max_fds = 8);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_UNIX_SOCKET_H_
