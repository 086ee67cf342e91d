#include "services/manager/export_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
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
                                                                  WorkerRegistry* registry) {
  auto listening = ListenUnix(path);
  if (!listening.ok()) return listening.status();
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  return std::unique_ptr<ExportSocket>(
      new ExportSocket(path, *std::move(listening), std::move(stop), registry));
}

ExportSocket::ExportSocket(std::string path, UniqueFd listening, UniqueFd stop,
                           WorkerRegistry* registry)
    : path_(std::move(path)),
      listening_(std::move(listening)),
      stop_(std::move(stop)),
      registry_(registry),
      thread_([this] { Run(); }) {}

ExportSocket::~ExportSocket() {
  FOLIO_CHECK(eventfd_write(stop_.get(), 1) == 0);
  thread_.join();
  unlink(path_.c_str());
}

void ExportSocket::Run() {
  for (;;) {
    pollfd polled[] = {{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0) {
      FOLIO_CHECK(errno == EINTR);
      continue;
    }
    if (polled[0].revents != 0) return;
    const UniqueFd connection(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) {
      Serve(connection.get());
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      log::Error("export socket cannot accept", {{"errno", errno}});
      poll(nullptr, 0, 100);  // the caller stays in the backlog; do not spin on it
    }
  }
}

void ExportSocket::Serve(int connection) {
  // The token is read before anything is refused: closing a socket with unread data would take the
  // answer from the caller.
  auto token = ReceiveExportToken(connection, kTokenTimeout);
  auto grant =
      token.ok() ? Redeem(connection, *token) : absl::StatusOr<ExportGrant>(token.status());
  if (!grant.ok()) {
    log::Warning("export refused", {{"reason", grant.status()}});
    SendExportRefusal(connection, grant.status());
    return;
  }
  const PoolExport& memory = grant->pool->memory();
  const absl::Status sent =
      SendPoolDescriptors(connection, memory.pool_fd(grant->rank), memory.score_board_fd());
  if (!sent.ok()) log::Warning("export failed", {{"reason", sent}});
}

absl::StatusOr<ExportGrant> ExportSocket::Redeem(int connection, const std::string& token) {
  auto peer = GetPeerCredentials(connection);
  if (!peer.ok()) return peer.status();
  if (absl::Status status = CheckPeerUser(peer->uid, geteuid()); !status.ok()) return status;
  auto pidfd = OpenPeerPidfd(connection, *peer);
  if (!pidfd.ok()) return pidfd.status();
  return registry_->RedeemExportToken(token, peer->pid, *std::move(pidfd));
}

}  // namespace folio::manager
