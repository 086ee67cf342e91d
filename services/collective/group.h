// GroupSocket and JoinGroup are the rendezvous of a group's processes. The leader listens on a
// Unix socket, and the others connect and send their rank. Once all are there, each gets the shared
// memory. The connections stay open, because a closed one shows at once that a process has ended.
#ifndef FOLIO_SERVICES_COLLECTIVE_GROUP_H_
#define FOLIO_SERVICES_COLLECTIVE_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/unique_fd.h"
#include "services/collective/collective.h"

namespace folio::collective {

// The leader's socket. Destroying it removes its file.
class GroupSocket {
 public:
  // `ranks` is from 2 to kMaxRanks. FAILED_PRECONDITION if another process listens there.
  static absl::StatusOr<GroupSocket> Listen(const std::string& path, uint32_t ranks);
  GroupSocket(GroupSocket&& other) noexcept;
  GroupSocket& operator=(GroupSocket&&) = delete;
  ~GroupSocket();

  // Waits for all other ranks, once. DEADLINE_EXCEEDED names those that did not come. A process
  // that comes with a rank that is taken, or from another kind of group, is refused and told why.
  // `buffer_bytes`, a multiple of 64, is the most that a rank can send in one turn. `check` is
  // called while it waits, and its error ends the wait.
  absl::StatusOr<std::unique_ptr<Collective>> AcceptRanks(
      absl::Duration timeout, const std::function<absl::Status()>& check = nullptr,
      size_t buffer_bytes = size_t{1} << 20);

 private:
  GroupSocket(std::string path, uint32_t ranks, UniqueFd listening);

  std::string path_;  // empty: moved from
  uint32_t ranks_;
  UniqueFd listening_;
};

// Joins as `rank`, from 1. Waits for the leader to listen and for the other ranks.
// DEADLINE_EXCEEDED if that takes longer than `timeout`. A refusal by the leader is returned as it
// is.
absl::StatusOr<std::unique_ptr<Collective>> JoinGroup(const std::string& path, Rank rank,
                                                      uint32_t ranks, absl::Duration timeout);

}  // namespace folio::collective

#endif  // FOLIO_SERVICES_COLLECTIVE_GROUP_H_
