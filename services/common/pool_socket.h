// What is said on the manager's export socket: the worker sends its one-time token, the manager
// answers with the pool's descriptors or with why not, and closes.
#ifndef FOLIO_SERVICES_COMMON_POOL_SOCKET_H_
#define FOLIO_SERVICES_COMMON_POOL_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/common/unique_fd.h"

namespace folio {

struct PoolDescriptors {
  UniqueFd pool;         // [page][K, V][kv_head][token][head_dim]; sealed against resizing
  UniqueFd score_board;  // float [plane][page][token][kv_head]; sealed likewise
};

// Worker's side: fetches the descriptors with the token that Attach gave. PERMISSION_DENIED for a
// token that is wrong or used up; UNAVAILABLE when nobody listens. Any thread; blocks.
absl::StatusOr<PoolDescriptors> FetchPoolDescriptors(const std::string& socket_path,
                                                     absl::string_view export_token,
                                                     absl::Duration timeout = absl::Seconds(10));

// Manager's side, on one accepted connection.
absl::StatusOr<std::string> ReceiveExportToken(int socket, absl::Duration timeout);
absl::Status SendPoolDescriptors(int socket, int pool, int score_board);
void SendExportRefusal(int socket, const absl::Status& why);

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_POOL_SOCKET_H_
