// TpExecutor is the executor of a tensor-parallel group, on its leader. It runs every step on its
// own rank's executor and has the other ranks run it too. RunRankFollower is their side.
//
// Table edits travel with the next step, in one message. On executors that finish in Enqueue
// (pipeline_depth 0) all ranks have finished when Enqueue returns: no rank touches the step's pages
// any more, and all ranks' scores are on the board. A compaction is waited for too, because its
// caller then gives pages back. On GPUs all ranks may be as far behind as the leader, and the same
// holds when Collect returns.
//
// The group fails as a whole. After a failure fault() says why, steps return it as their status,
// and edits are made on this rank alone, so that the tables can still be read. fault() also reports
// a rank that has died while no step runs.
#ifndef FOLIO_SERVICES_MODEL_TP_TP_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_TP_TP_EXECUTOR_H_

#include <memory>

#include "absl/time/time.h"
#include "services/collective/collective.h"
#include "services/model/executor/executor.h"

namespace folio::model {

struct TpExecutorOptions {
  // How long the other ranks may lag behind.
  absl::Duration timeout = absl::Seconds(30);
  // Has all ranks compare the tables of each step's slots with the leader's, by their digest.
#ifdef NDEBUG
  bool compare_tables = false;
#else
  bool compare_tables = true;
#endif
};

// `own` is the executor of the leader's rank. `group` is borrowed. The other ranks' executors have
// the same pipeline_depth. If it is not 0, the executors themselves send sampled tokens to the
// other ranks. The destructor lets the other ranks go.
std::unique_ptr<Executor> MakeTpExecutor(std::unique_ptr<Executor> own,
                                         collective::Collective* group,
                                         const TpExecutorOptions& options = {});

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TP_TP_EXECUTOR_H_
