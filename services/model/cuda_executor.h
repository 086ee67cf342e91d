// The executor on an NVIDIA GPU: Enqueue returns when the step is on its way, and the device may be
// one step behind the host (pipeline_depth 1). What a step samples is fed to the next one on the
// device.
//
// Table edits are the host's; the device gets them with the next step, in one copy with all else
// that the step needs. Compaction is enqueued when it is asked for. A step's results are there, and
// nothing of it or of what was enqueued before it touches the pool any more, when Collect returns.
//
// A fault of the device is final: see Executor::fault. Where memory that a step wants does not fit,
// that step alone fails.
#ifndef FOLIO_SERVICES_MODEL_CUDA_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_CUDA_EXECUTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda_model.h"
#include "services/model/executor.h"

namespace folio::model {

// An executor of these weights, on their device. `pool` and its board must stay reachable for the
// device while it lives; pages are bf16. `max_rows`: that one step may have; device memory for
// activations grows with it. times() has all in `other`: how long Enqueue and Collect took.
//
// INVALID_ARGUMENT names the field in which the pool differs from the model. RESOURCE_EXHAUSTED
// names what did not fit.
absl::StatusOr<std::unique_ptr<Executor>> MakeCudaExecutor(std::shared_ptr<CudaModel> model,
                                                           const kernels::cuda::DevicePool& pool,
                                                           uint32_t max_rows);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_EXECUTOR_H_
