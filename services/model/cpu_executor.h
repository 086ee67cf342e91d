// The executor on a CPU: a step is done when Enqueue returns (pipeline_depth 0).
#ifndef FOLIO_SERVICES_MODEL_CPU_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_CPU_EXECUTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/ops.h"
#include "kernels/views.h"
#include "services/model/executor.h"
#include "services/model/model_source.h"
#include "services/model/rank_exchange.h"
#include "services/model/weights.h"

namespace folio::model {

struct CpuExecutorOptions {
  // Rows one step may have. Scratch memory grows with it: about 25 KB a row for the reference
  // model. With the length of sequences grow only some bytes a token of the longest, where scores
  // on demand are wanted: K and V live in the pool alone.
  uint32_t max_rows = 512;
  LoadProgress progress;  // while weights are loaded
  // As one rank of a group: source or weights, pool and geometry are the rank's shard. Every rank
  // runs the same steps; the leader's outputs are filled, the others' are not. Without: alone.
  RankGroup group;
};

// Loads the weights and makes the executor. `pool` must stay mapped while it lives.
// INVALID_ARGUMENT names what does not fit: threads or max_rows below 1, or the field in which the
// pool's geometry differs from the model. The source's own errors pass through.
absl::StatusOr<std::unique_ptr<Executor>> MakeCpuExecutor(const ModelSource& source,
                                                          std::unique_ptr<kernels::cpu::CpuOps> ops,
                                                          int threads,
                                                          const kernels::PoolView& pool,
                                                          const CpuExecutorOptions& options = {});

// The same over weights that are loaded already, by an `ops` of the same family.
absl::StatusOr<std::unique_ptr<Executor>> MakeCpuExecutor(
    std::shared_ptr<const ModelWeights> weights, std::unique_ptr<kernels::cpu::CpuOps> ops,
    int threads, const kernels::PoolView& pool, const CpuExecutorOptions& options = {});

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CPU_EXECUTOR_H_
