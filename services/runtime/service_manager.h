// InheritedSockets are the sockets that the service manager (systemd) opened before it started this
// process. NotifyServiceManager tells it how the process is.
//
// The protocol is that of sd_listen_fds(3) and sd_notify(3), which systemd documents as stable. It
// is a few lines, so Folio does not link libsystemd, which would bring libraries for compression
// and cryptography into every daemon.
#ifndef FOLIO_SERVICES_RUNTIME_SERVICE_MANAGER_H_
#define FOLIO_SERVICES_RUNTIME_SERVICE_MANAGER_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/base/unique_fd.h"

namespace folio {

// Not thread-safe.
class InheritedSockets {
 public:
  // No sockets.
  InheritedSockets() = default;
  // Takes the sockets of LISTEN_FDS and removes its variables, so that child processes do not take
  // them for theirs. Call it once, before any thread starts. INVALID_ARGUMENT names a variable or
  // descriptor that is not as the protocol says.
  static absl::StatusOr<InheritedSockets> Take();

  // Gives up the socket bound to `address` ("unix:/path" or "host:port" with a numeric host), which
  // listens already. Invalid if there is none.
  UniqueFd Find(const std::string& address);
  // FAILED_PRECONDITION names an address that no call of Find asked for, since its clients would
  // wait forever.
  absl::Status CheckAllUsed() const;

 private:
  std::map<std::string, UniqueFd> sockets_;  // by address
};

// Sends a state such as "READY=1" or "STOPPING=1" to NOTIFY_SOCKET. Does nothing if the process was
// not started by a service manager that waits for it. Thread-safe.
void NotifyServiceManager(absl::string_view state);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_SERVICE_MANAGER_H_
