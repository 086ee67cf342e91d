// RunRankFollower does on a rank's executor what the leader of its group sends, until the leader
// lets it go or the group ends.
#ifndef FOLIO_SERVICES_MODEL_TP_RANK_FOLLOWER_H_
#define FOLIO_SERVICES_MODEL_TP_RANK_FOLLOWER_H_

#include <functional>

#include "absl/status/status.h"
#include "services/collective/collective.h"
#include "services/model/executor/executor.h"

namespace folio::model {

// `own` is this rank's executor. OK when the leader's executor was destroyed, otherwise why the
// group has ended. A command that cannot be read, a slot that is numbered otherwise here or tables
// that differ from the leader's end it for all ranks, with this rank's number in the reason
// (DATA_LOSS). Blocks. `busy`, if given, is called with true before each work on the executor and
// with false after it: a device may hang there.
absl::Status RunRankFollower(Executor& own, collective::Collective& group,
                             const std::function<void(bool)>& busy = nullptr);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TP_RANK_FOLLOWER_H_
