// The executor of a tensor-parallel group, on its leader: does everything on its own rank's
// executor and has the other ranks do the same (RunRankFollower is their side).
//
// Table edits travel with the next step. Where a step is done when Enqueue returns (pipeline_depth
// 0), so it is on all ranks: none touches pages for it any more and all ranks' scores are on the
// board; a compaction is waited for, because its caller then gives pages away. On GPUs all ranks
// are as far behind as the leader is, and all this holds when Collect returns.
//
// When a rank fails, the group does: fault() says why, steps give it as their status, and edits are
// made on this rank alone, so that the tables can still be looked at. That a rank has gone fault()
// says at once, in a step or not.
#ifndef FOLIO_SERVICES_MODEL_TP_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_TP_EXECUTOR_H_

#include <memory>

#include "absl/time/time.h"
#include "services/collective/collective.h"
#include "services/model/executor.h"

namespace folio::model {

struct TpExecutorOptions {
  // How long the other ranks may be behind.
  absl::Duration patience = absl::Seconds(30);
  // With every step, have all ranks compare the tables of its slots with the leader's.
#ifdef NDEBUG
  bool compare_tables = false;
#else
  bool compare_tables = true;
#endif
};

// `own` is the leader's rank of `group`, which is borrowed; the other ranks' have its
// pipeline_depth. Where that is not 0, tokens that are sampled reach the other ranks by themselves.
// Destroying it lets the others leave.
std::unique_ptr<Executor> MakeTpExecutor(std::unique_ptr<Executor> own,
                                         collective::Collective* group,
                                         const TpExecutorOptions& options = {});

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TP_EXECUTOR_H_
