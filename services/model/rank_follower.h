// The life of a tensor-parallel rank that does not lead: does on its executor what the leader says,
// until the leader lets it go or the group ends.
#ifndef FOLIO_SERVICES_MODEL_RANK_FOLLOWER_H_
#define FOLIO_SERVICES_MODEL_RANK_FOLLOWER_H_

#include "absl/status/status.h"
#include "services/collective/collective.h"
#include "services/model/executor.h"

namespace folio::model {

// `own` is this rank's of `group`. OK when the leader was destroyed in order; else why the group
// has ended. A command that cannot be read, a slot that is numbered otherwise here or tables that
// differ from the leader's end it for all ranks, with this rank's number in the reason
// (DATA_LOSS). Blocks.
absl::Status RunRankFollower(Executor& own, collective::Collective& group);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_RANK_FOLLOWER_H_
