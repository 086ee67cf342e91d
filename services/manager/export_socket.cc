#include "services/manager/export_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/runtime/logging.h"
#include "services/runtime/pool_socket.h"

namespace folio::manager {
namespace {

// A worker has its token before it connects, so a caller that is slower is not one.
constexpr absl::Duration kTokenTimeout = absl::Seconds(2);

}  // namespace

absl::Status CheckPeerUser(uid_t peer, uid_t own) {
  if (peer == own || peer == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("user ", peer, " may not have the pool of user ", own));
}

absl::StatusOr<std::unique_ptr<ExportSocket>> ExportSocket::Start(const std::string& path,
                                                                  InheritedSockets& inherited,
                                                                  ServedPools* pools) {
  if (UniqueFd socket = inherited.Find(absl::StrCat("unix:", path)); socket.valid()) {
    return std::unique_ptr<ExportSocket>(new ExportSocket("", std::move(socket), pools));
  }
  auto listening = ListenUnix(path, 0600, SOCK_SEQPACKET | SOCK_NONBLOCK);
  if (!listening.ok()) return listening.status();
  return std::unique_ptr<ExportSocket>(new ExportSocket(path, *std::move(listening), pools));
}

ExportSocket::ExportSocket(std::string path, UniqueFd listening, ServedPools* pools)
    : path_(std::move(path)),
      listening_(std::move(listening)),
      pools_(pools),
      // Callers are served one after the other, so they need no limit.
      acceptor_(
          {listening_.get()}, [this](UniqueFd connection) { Serve(connection.get()); },
          /*limit=*/nullptr) {}

ExportSocket::~ExportSocket() {
  // The socket closes after this, and callers in between see the connection end.
  if (!path_.empty()) unlink(path_.c_str());
}

void ExportSocket::Serve(int connection) {
  // The token is read before anything is refused: closing a socket with unread data would take the
  // answer from the caller.
  auto token = ReceiveExportToken(connection, kTokenTimeout);
  auto grant = token.ok() ? Redeem(connection, *std::move(token))
                          : absl::StatusOr<ExportGrant>(token.status());
  if (!grant.ok()) {
    log::Warning("export refused", {{"reason", grant.status()}});
    SendExportRefusal(connection, grant.status());
    return;
  }
  const absl::Status sent = SendPoolDescriptors(connection, grant->pages.get(),
                                                grant->score_board.get(), grant->swap.get());
  if (!sent.ok()) log::Warning("export failed", {{"reason", sent}});
}

absl::StatusOr<ExportGrant> ExportSocket::Redeem(int connection, ExportToken shown) {
  auto peer = GetPeerCredentials(connection);
  if (!peer.ok()) return peer.status();
  if (absl::Status status = CheckPeerUser(peer->uid, geteuid()); !status.ok()) return status;
  UniqueFd kept(fcntl(connection, F_DUPFD_CLOEXEC, 0));
  if (!kept.valid()) return absl::ErrnoToStatus(errno, "cannot keep the connection");
  return pools_->RedeemExportToken(
      shown.token, {peer->pid, OpenPeerPidfd(connection, *peer), std::move(kept), peer->uid,
                    std::move(shown.brought)});
}

}  // namespace folio::manager
