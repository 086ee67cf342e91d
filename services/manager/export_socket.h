// ExportSocket is the Unix socket that hands pool descriptors to workers. A caller must run as the
// manager's user or as root and show a one-time token from Attach. gRPC cannot pass descriptors,
// which is why this socket exists beside it.
#ifndef FOLIO_SERVICES_MANAGER_EXPORT_SOCKET_H_
#define FOLIO_SERVICES_MANAGER_EXPORT_SOCKET_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/unique_fd.h"
#include "services/manager/served_pools.h"
#include "services/runtime/pool_socket.h"
#include "services/runtime/service_manager.h"
#include "services/runtime/socket_acceptor.h"
#include "services/runtime/unix_socket.h"

namespace folio::manager {

// OK if a process of user `peer` may have the memory of user `own`.
absl::Status CheckPeerUser(uid_t peer, uid_t own);

// It serves one caller after the other on a thread of its own. Its destructor removes the socket
// file, unless the socket was inherited.
class ExportSocket {
 public:
  // `pools` is borrowed. Uses the inherited socket at `path` if there is one.
  // FAILED_PRECONDITION if another process listens on `path`.
  static absl::StatusOr<std::unique_ptr<ExportSocket>> Start(const std::string& path,
                                                             InheritedSockets& inherited,
                                                             ServedPools* pools);
  ~ExportSocket();
  ExportSocket(const ExportSocket&) = delete;
  ExportSocket& operator=(const ExportSocket&) = delete;

 private:
  ExportSocket(std::string path, UniqueFd listening, ServedPools* pools);

  void Serve(int connection);
  absl::StatusOr<ExportGrant> Redeem(int connection, ExportToken shown);

  const std::string path_;  // of the file to remove; empty for an inherited socket
  const UniqueFd listening_;
  ServedPools* const pools_;
  SocketAcceptor acceptor_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_EXPORT_SOCKET_H_
