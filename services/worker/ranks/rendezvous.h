// InitGroup forms the group of a worker's tensor-parallel ranks. Every rank calls it once, after
// its processes are connected and its shard is loaded: the ranks compare what they have loaded, and
// then connect their GPUs. RankLeader and RunFollower are its two callers.
#ifndef FOLIO_SERVICES_WORKER_RANKS_RENDEZVOUS_H_
#define FOLIO_SERVICES_WORKER_RANKS_RENDEZVOUS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/collective/collective.h"
#include "services/worker/device/loaded_model.h"
#include "services/worker/device/rank_group.h"

namespace folio::worker {

struct GroupOptions {
  TpRank self;
  std::string socket;  // where the ranks meet; if empty, the leader starts the other ranks itself
  absl::Duration timeout;  // for all ranks to connect
  pid_t leader_pid = 0;    // the leader, if it started this rank, else 0
};

// The model, the layout, the arithmetic and the rows of a step must be the same on all ranks:
// otherwise every rank gets FAILED_PRECONDITION, which names a differing rank and both settings.
// Other errors are those of LoadedModel::MakeCommunicator, from the first rank that has one.
absl::StatusOr<RankGroup> InitGroup(collective::Collective& host, const LoadedModel& model,
                                    uint32_t max_rows);

// Waits until all ranks have called it, for at most the time that mapping a pool may take.
absl::Status Barrier(collective::Collective& host);

// The leader broadcasts this before it attaches again. Each rank answers with Barrier once it has
// unmapped its pages. It differs from every answer of a manager, which begins with the tag of its
// first field.
inline constexpr absl::string_view kAskUnmapped = "unmapped?";
inline constexpr absl::string_view kDropHeld = "drop";

// Ends the group because this rank cannot continue, and returns the reason with the rank's number.
// If the group has ended before, it returns why.
absl::Status AbortGroup(collective::Collective& host, const absl::Status& why);

// How long a rank waits for the others at start-up and at an attachment: each maps its pages, and
// connects its GPU, at its own speed.
inline constexpr absl::Duration kRankTimeout = absl::Minutes(1);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RANKS_RENDEZVOUS_H_
