// How a worker of several tensor-parallel ranks comes together: on the leader and on the others.
#ifndef FOLIO_SERVICES_WORKER_RANK_LEADER_H_
#define FOLIO_SERVICES_WORKER_RANK_LEADER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/collective/group.h"
#include "services/worker/loaded_model.h"
#include "services/worker/spawned_ranks.h"

namespace folio::worker {

struct RankOptions {
  RankOf of;
  std::string group;  // path of the socket where ranks meet; empty: the leader starts the others
  absl::Duration timeout;  // for the others to come
  pid_t leader_pid = 0;    // that started this rank; 0: something else did
};

// Of rank 0. Its end is the other ranks'.
class RankLeader {
 public:
  // Listens, and starts the other ranks if nobody else does: they load while this rank loads.
  static absl::StatusOr<std::unique_ptr<RankLeader>> Start(const RankOptions& options, int threads);
  ~RankLeader();

  // Waits for the others and agrees with them: see MeetRanks. CANCELLED once `stop` says so,
  // UNAVAILABLE when a rank that was started here ends before it has come.
  absl::Status Meet(const LoadedModel& model, uint32_t max_rows, const std::function<bool()>& stop);
  // Once they have met.
  const RankGroup* group() const { return &group_; }

 private:
  RankLeader() = default;
  absl::Duration timeout_;
  std::string directory_;  // of a socket of our own; empty: the socket is the caller's
  std::optional<SpawnedRanks> spawned_;  // waits for the group's end: goes last
  std::optional<collective::GroupSocket> socket_;
  std::unique_ptr<collective::Collective> host_;
  RankGroup group_;
};

// From now on this process ends when the leader that started it does, however it ends.
// UNAVAILABLE when it has ended already. Nothing for a rank that something else started.
absl::Status EndWithLeader(const RankOptions& options);

// The whole life of another rank, once it has loaded. `joined` is called when the group is
// complete. OK when the leader let it go.
absl::Status RunRank(const RankOptions& options, const LoadedModel& model, uint32_t max_rows,
                     const std::function<void()>& joined);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RANK_LEADER_H_
