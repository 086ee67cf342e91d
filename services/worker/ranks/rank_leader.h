// RankLeader is rank 0 of a worker of several tensor-parallel ranks: it starts the other ranks
// where nothing else does, waits for them, and ends them with itself.
#ifndef FOLIO_SERVICES_WORKER_RANKS_RANK_LEADER_H_
#define FOLIO_SERVICES_WORKER_RANKS_RANK_LEADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/collective/group.h"
#include "services/worker/device/loaded_model.h"
#include "services/worker/ranks/rendezvous.h"
#include "services/worker/ranks/spawned_ranks.h"

namespace folio::worker {

class RankLeader {
 public:
  // Listens for the other ranks, and starts them if GroupOptions::socket is empty. This comes
  // before the leader loads its own shard, so that all ranks load at the same time.
  static absl::StatusOr<std::unique_ptr<RankLeader>> Start(const GroupOptions& options,
                                                           int threads);
  // Lets the other ranks go.
  ~RankLeader();

  // Waits for the other ranks to connect, then forms the group: see worker::InitGroup. CANCELLED
  // when `stop` returns true, UNAVAILABLE when a rank that was started here ends before it
  // connects.
  absl::Status InitGroup(const LoadedModel& model, uint32_t max_rows,
                         const std::function<bool()>& stop);
  const RankGroup* group() const { return &group_; }  // after InitGroup

 private:
  RankLeader() = default;
  absl::Duration timeout_;
  std::string directory_;  // holds a socket of our own, or empty if its path was given
  std::optional<SpawnedRanks> spawned_;  // destroyed last, because it waits for the group's end
  std::optional<collective::GroupSocket> socket_;
  std::unique_ptr<collective::Collective> host_;
  RankGroup group_;
};

// Returns when no rank has the pages of the last attachment mapped. Precondition: the leader's
// executor is gone, and its own pages are unmapped. Errors are INTERNAL.
absl::Status AwaitUnmapped(collective::Collective& host);

// Returns when no rank holds the descriptors of the last attachment any more. Errors are INTERNAL.
absl::Status DropHeldPools(collective::Collective& host);

// Sends the other ranks the manager's answer to the leader's attachment. Returns when all of them
// have mapped their pages. Errors are INTERNAL, because a leader cannot serve without its group.
absl::Status AttachRanks(collective::Collective& host, const folio::v1::AttachResponse& answer);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RANKS_RANK_LEADER_H_
