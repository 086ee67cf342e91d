// CpuExecutor runs steps on a CPU. A step is complete when Enqueue returns (pipeline_depth 0).
#ifndef FOLIO_SERVICES_MODEL_CPU_CPU_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_CPU_CPU_EXECUTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/ops.h"
#include "kernels/views.h"
#include "services/model/cpu/cpu_communicator.h"
#include "services/model/cpu/weights.h"
#include "services/model/executor/executor.h"
#include "services/model/source/model_source.h"

namespace folio::model {

struct CpuExecutorOptions {
  // Rows one step may have. Scratch memory grows with it, by about 25 KB a row for the reference
  // model. Memory does not grow with the length of sequences, because K and V are in the pool,
  // except for a few bytes per token of the longest sequence if on-demand scores are used.
  uint32_t max_rows = 512;
  LoadProgress progress;  // while weights are loaded
  HeldWeights held = HeldWeights::kBfloat16;
  // Set for one rank of a group. Source or weights, pool and geometry are then the rank's shard.
  // Every rank runs the same steps, and only the leader's outputs are filled.
  CpuGroup group;
};

// Loads the weights and makes the executor. `pool` must stay mapped while it lives.
// INVALID_ARGUMENT names what does not fit: threads or max_rows below 1, or the field in which the
// pool's geometry differs from the model. Errors of the source pass through.
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

#endif  // FOLIO_SERVICES_MODEL_CPU_CPU_EXECUTOR_H_
