#include "services/runtime/pool_socket.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/runtime/refusal_text.h"
#include "services/runtime/unix_socket.h"

namespace folio {
namespace {

constexpr absl::string_view kGranted = "folio-pool 1";
constexpr size_t kMostBrought = 3;

}  // namespace

absl::StatusOr<PoolDescriptors> FetchPoolDescriptors(const std::string& socket_path,
                                                     absl::string_view export_token,
                                                     absl::Span<const int> brought,
                                                     absl::Duration timeout) {
  auto socket = ConnectUnix(socket_path);
  if (!socket.ok()) return socket.status();
  if (absl::Status status = SendMessage(socket->get(), export_token, brought); !status.ok()) {
    return status;
  }
  auto answer = ReceiveMessage(socket->get(), timeout);
  if (!answer.ok()) return answer.status();
  std::vector<UniqueFd>& fds = answer->fds;
  if (answer->text == kGranted && (fds.size() == 2 || fds.size() == 3)) {
    fds.resize(3);
    return PoolDescriptors{std::move(fds[0]), std::move(fds[1]), std::move(fds[2]),
                           *std::move(socket)};
  }
  if (answer->text.empty()) {
    return absl::UnavailableError(
        absl::StrCat(socket_path, " closed the connection without an answer"));
  }
  if (std::optional<absl::Status> refusal = ParseRefusal(answer->text)) return *refusal;
  return absl::InternalError(absl::StrCat(socket_path, " does not speak the export protocol"));
}

absl::StatusOr<ExportToken> ReceiveExportToken(int socket, absl::Duration timeout) {
  auto message = ReceiveMessage(socket, timeout, /*max_bytes=*/256, kMostBrought);
  if (!message.ok()) return message.status();
  if (message->text.empty()) return absl::InvalidArgumentError("no export token was sent");
  return ExportToken{std::move(message->text), std::move(message->fds)};
}

absl::Status SendPoolDescriptors(int socket, int pool, int score_board, int swap) {
  const std::array<int, 3> fds = {pool, score_board, swap};
  return SendMessage(socket, kGranted, absl::MakeConstSpan(fds).first(swap < 0 ? 2 : 3));
}

void SendExportRefusal(int socket, const absl::Status& why) {
  // The result does not matter, because a peer that has left does not need an answer.
  (void)SendMessage(socket, RefusalText(why));
}

}  // namespace folio
