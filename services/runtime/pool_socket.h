// FetchPoolDescriptors and SendPoolDescriptors are the two ends of the manager's export socket. The
// worker sends its one-time token, and the manager answers with the pool's descriptors or an error.
// The worker keeps the connection for as long as it can write the pool, because a manager that
// cannot see the worker's process takes the end of the connection for the end of the process.
#ifndef FOLIO_SERVICES_RUNTIME_POOL_SOCKET_H_
#define FOLIO_SERVICES_RUNTIME_POOL_SOCKET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/base/unique_fd.h"

namespace folio {

struct PoolDescriptors {
  UniqueFd pool;         // [page][K, V][kv_head][token][head_dim]; sealed against resizing
  UniqueFd score_board;  // float [channel][page][token][kv_head]; sealed likewise
  UniqueFd swap;         // see PoolLayout of the protocol; sealed likewise, or invalid without one
  UniqueFd connection;   // to be closed after the last write to the memory
};

// The worker's side, which fetches the descriptors with the token from Attach. `brought` goes with
// it: the pool, the score board and perhaps the swap memory that a manager before had made.
// NOT_FOUND for a token that is wrong, used up or no longer valid, PERMISSION_DENIED for another
// user's process, UNAVAILABLE if no process listens. Any thread. Blocks.
absl::StatusOr<PoolDescriptors> FetchPoolDescriptors(const std::string& socket_path,
                                                     absl::string_view export_token,
                                                     absl::Span<const int> brought = {},
                                                     absl::Duration timeout = absl::Seconds(10));

// The manager's side, on one accepted connection.
struct ExportToken {
  std::string token;
  std::vector<UniqueFd> brought;
};
absl::StatusOr<ExportToken> ReceiveExportToken(int socket, absl::Duration timeout);
absl::Status SendPoolDescriptors(int socket, int pool, int score_board, int swap = -1);
void SendExportRefusal(int socket, const absl::Status& why);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_POOL_SOCKET_H_
