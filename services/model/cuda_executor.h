// The executor on an NVIDIA GPU: Enqueue returns when the step is on its way, and the device may be
// one step behind the host (pipeline_depth 1). What a step samples is fed to the next one on the
// device.
//
// Table edits are the host's; the device gets them with the next step, in one copy with all else
// that the step needs. Compaction is enqueued when it is asked for. A step's results are there, and
// nothing of it or of what was enqueued before it touches the pool any more, when Collect returns.
//
// Steps of decode rows alone are padded to one of a few shapes (see decode_shapes.h) and run as
// CUDA graphs, from embedding to sampled tokens: one launch in place of hundreds. What a step does
// besides, edits of tables and scores of resident tokens, is around the graph. Steps with prompt
// rows, and those that want lists of log-probabilities, run kernel by kernel. All give the same
// bits with graphs and without.
//
// A fault of the device is final: see Executor::fault. Where memory that a step wants does not fit,
// that step alone fails. Of a group, any step that fails on a rank is the end of the group: the
// others wait for it on their GPUs.
#ifndef FOLIO_SERVICES_MODEL_CUDA_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_CUDA_EXECUTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda_exchange.h"
#include "services/model/cuda_model.h"
#include "services/model/executor.h"

namespace folio::model {

struct CudaExecutorOptions {
  // Rows one step may have. Device memory for activations grows with it.
  uint32_t max_rows = 2048;
  // Decode steps as CUDA graphs.
  bool graphs = true;
  // Algorithms of products are chosen by trying them when the executor is made; false: by
  // cuBLASLt's heuristic, which is slower and the same each time.
  bool tune = true;
  // As one rank of a group: the model is of the rank's shard, and so is the pool. All ranks enqueue
  // the same steps in the same order; the leader samples, and its outputs are filled, the others'
  // are not. Steps are no graphs. Null: alone.
  std::shared_ptr<CudaExchange> exchange = nullptr;
};

// An executor of these weights, on their device. `pool` and its board must stay reachable for the
// device while it lives; pages are bf16. times() has all in `other`: how long Enqueue and Collect
// took.
//
// INVALID_ARGUMENT names the field in which the pool differs from the model. RESOURCE_EXHAUSTED
// names what did not fit.
absl::StatusOr<std::unique_ptr<Executor>> MakeCudaExecutor(std::shared_ptr<CudaModel> model,
                                                           const kernels::cuda::DevicePool& pool,
                                                           const CudaExecutorOptions& options = {});

// How an executor's steps ran so far.
struct GraphCounts {
  uint64_t recorded = 0;  // graphs that were made
  uint64_t replayed = 0;  // steps that ran as one
  uint64_t passed = 0;    // steps that ran kernel by kernel
  uint64_t refused = 0;   // shapes of which none could be made
  size_t bytes = 0;       // of the device's memory that graphs take, as far as CUDA shows it
};
// Of one that MakeCudaExecutor made; of others nothing is counted.
GraphCounts GraphsOf(const Executor& executor);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_EXECUTOR_H_
