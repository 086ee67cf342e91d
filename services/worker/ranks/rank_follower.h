// RunFollower is the life of a tensor-parallel rank that does not lead. It neither serves clients
// nor attaches to a manager: for each attachment of its leader it maps its own pages and runs the
// steps that the leader runs.
#ifndef FOLIO_SERVICES_WORKER_RANKS_RANK_FOLLOWER_H_
#define FOLIO_SERVICES_WORKER_RANKS_RANK_FOLLOWER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "services/worker/device/loaded_model.h"
#include "services/worker/ranks/rendezvous.h"

namespace folio::worker {

// Has the kernel end this process when the leader that started it ends, however that happens.
// UNAVAILABLE: the leader has ended already. Does nothing in a rank that something else started.
absl::Status EndWithLeader(const GroupOptions& options);

// Joins the group, calls `joined` when all ranks are connected, and follows the leader until it
// lets this rank go (OK) or the group ends (the reason). Blocks. `busy` is called with true before,
// and with false after, each work of this rank's device and the end of its executor.
absl::Status RunFollower(const GroupOptions& options, const LoadedModel& model, uint32_t max_rows,
                         const std::function<void()>& joined,
                         const std::function<void(bool)>& busy);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RANKS_RANK_FOLLOWER_H_
