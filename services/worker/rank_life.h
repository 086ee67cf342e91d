// The ranks of one worker: what its leader tells the others besides steps, and what they do with
// it. A group begins by agreeing on its terms; then, for each time that the leader attaches to a
// manager, all ranks fetch their pages and follow until the leader's executor ends.
#ifndef FOLIO_SERVICES_WORKER_RANK_LIFE_H_
#define FOLIO_SERVICES_WORKER_RANK_LIFE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/collective/collective.h"
#include "services/worker/loaded_model.h"

namespace folio::worker {

// On every rank, first: model, layout, arithmetic and rows of a step must be the same, and GPUs
// meet. FAILED_PRECONDITION, on all ranks, has a differing rank's and the leader's; other errors
// are those of LoadedModel::MeetRanks, of the first rank that has one.
absl::StatusOr<RankGroup> MeetRanks(collective::Collective& host, const LoadedModel& model,
                                    uint32_t max_rows);

// On the leader, after it has attached: returns when all ranks have their pages. Errors are
// INTERNAL: without its group it cannot go on.
absl::Status TellRanksToAttach(collective::Collective& group, const folio::v1::AttachResponse& to);
// On the leader, at the end: the others' lives end in order. What goes wrong does not matter.
void TellRanksToEnd(collective::Collective& group);

// The life of a rank that does not lead, once they have met; OK when it was told to end.
absl::Status LiveAsRank(const RankGroup& group, const LoadedModel& model, uint32_t max_rows);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RANK_LIFE_H_
