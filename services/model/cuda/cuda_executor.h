// CudaExecutor runs steps on an NVIDIA GPU. Enqueue returns when the step is enqueued, and the
// device may be one step behind the host (pipeline_depth 1). Sampled tokens are fed to the next
// step on the device, so that the host need not wait for them.
//
// Table edits are made on the host. The device gets them with the next step, in one copy with the
// step's other inputs. A compaction is enqueued at once. When Collect returns, the step's results
// are there, and neither the step nor anything enqueued before it touches the pool any more.
//
// Steps of decode rows alone are padded to one of a few shapes (see decode_shapes.h) and run as
// CUDA graphs, from embedding to sampled tokens: one launch in place of hundreds. Table edits and
// scores of resident tokens are enqueued around the graph. Steps with prompt rows, and steps that
// return lists of log-probabilities, run kernel by kernel. Results have the same bits with graphs
// and without.
//
// A fault of the device is final: see Executor::fault. A step that finds no memory fails alone.
// In a group any failed step ends the group, because the other ranks wait for it on their GPUs.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda/cuda_executor_options.h"
#include "services/model/cuda/cuda_model.h"
#include "services/model/cuda/graph_counts.h"
#include "services/model/executor/executor.h"

namespace folio::model {

// Makes an executor of these weights, on their device. The device must be able to reach `pool` and
// its board while the executor lives. Pages are bf16. times() counts the duration of Enqueue and
// Collect in `other`.
//
// INVALID_ARGUMENT names the field in which the pool differs from the model. RESOURCE_EXHAUSTED
// names what did not fit.
absl::StatusOr<std::unique_ptr<Executor>> MakeCudaExecutor(std::shared_ptr<CudaModel> model,
                                                           const kernels::cuda::DevicePool& pool,
                                                           const CudaExecutorOptions& options = {});

// The counts of an executor that MakeCudaExecutor made; all zero for any other.
GraphCounts GraphsOf(const Executor& executor);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_H_
