// How the processes of a group find each other: the leader listens on a Unix socket, the others
// connect and say who they are, and once all are there each is given the shared memory. The
// connections stay: they tell who has gone.
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
#include "services/collective/collective.h"
#include "services/common/unique_fd.h"

namespace folio::collective {

// The socket that a group meets at; its file goes with it.
class GroupSocket {
 public:
  // From 2 to kMostRanks ranks. FAILED_PRECONDITION when another process listens there.
  static absl::StatusOr<GroupSocket> Listen(const std::string& path, uint32_t ranks);
  GroupSocket(GroupSocket&& other) noexcept;
  GroupSocket& operator=(GroupSocket&&) = delete;
  ~GroupSocket();

  // Waits for all other ranks. DEADLINE_EXCEEDED names those that did not come; who comes with a
  // rank that is taken, or from another kind of group, is refused and told why. Once.
  // `buffer_bytes`, a multiple of 64, is what a rank may give in one turn. `check` is called while
  // it waits; its error ends that.
  absl::StatusOr<std::unique_ptr<Collective>> Lead(
      absl::Duration timeout, const std::function<absl::Status()>& check = nullptr,
      size_t buffer_bytes = size_t{1} << 20);

 private:
  GroupSocket(std::string path, uint32_t ranks, UniqueFd listening);

  std::string path_;  // empty: moved from
  uint32_t ranks_;
  UniqueFd listening_;
};

// Joins as `rank`, from 1. Waits for the leader to listen and for the other ranks:
// DEADLINE_EXCEEDED when that takes longer than `timeout`; the leader's refusal passes through.
absl::StatusOr<std::unique_ptr<Collective>> JoinGroup(const std::string& path, Rank rank,
                                                      uint32_t ranks, absl::Duration timeout);

}  // namespace folio::collective

#endif  // FOLIO_SERVICES_COLLECTIVE_GROUP_H_
