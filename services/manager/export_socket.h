// The Unix socket that hands pool descriptors to workers. A caller must have our user id (or
// root's) and a one-time token from Attach.
#ifndef FOLIO_SERVICES_MANAGER_EXPORT_SOCKET_H_
#define FOLIO_SERVICES_MANAGER_EXPORT_SOCKET_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/common/unique_fd.h"
#include "services/common/unix_socket.h"
#include "services/manager/worker_roster.h"

namespace folio::manager {

// OK when a process of user `peer` may have what user `own` holds.
absl::Status CheckPeerUser(uid_t peer, uid_t own);

// Serves on a thread of its own, one caller after the other, from Start until destruction, which
// removes the socket file.
class ExportSocket {
 public:
  // `roster` is borrowed. FAILED_PRECONDITION when another process listens on `path`.
  static absl::StatusOr<std::unique_ptr<ExportSocket>> Start(const std::string& path,
                                                             WorkerRoster* roster);
  ~ExportSocket();
  ExportSocket(const ExportSocket&) = delete;
  ExportSocket& operator=(const ExportSocket&) = delete;

 private:
  ExportSocket(std::string path, UniqueFd listening, UniqueFd stop, WorkerRoster* roster);

  void Run();
  void Serve(int connection);
  absl::StatusOr<ExportGrant> Redeem(int connection, const std::string& token);

  const std::string path_;
  const UniqueFd listening_;
  const UniqueFd stop_;  // eventfd
  WorkerRoster* const roster_;
  std::thread thread_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_EXPORT_SOCKET_H_
