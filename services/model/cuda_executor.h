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

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"
#include "services/model/executor.h"
#include "services/model/model_source.h"
#include "services/model/tensor_reader.h"

namespace folio::model {

struct CudaExecutorOptions {
  int device = 0;
  // Rows one step may have. Device memory for activations grows with it.
  uint32_t max_rows = 2048;
  // Of the device's memory, without the pool; 0: as much as there is.
  size_t gpu_memory = 0;
  int load_threads = 1;
  LoadProgress progress = nullptr;  // while weights are loaded
};

// Loads the weights onto the device and makes the executor. `pool` and its board must stay
// reachable for the device while it lives; pages are bf16. times() has all in `other`: how long
// Enqueue and Collect took.
//
// FAILED_PRECONDITION: no driver, or not that device. INVALID_ARGUMENT names the field in which the
// pool differs from the model, or what the kernels do not serve. RESOURCE_EXHAUSTED names what did
// not fit. The source's own errors pass through.
absl::StatusOr<std::unique_ptr<Executor>> MakeCudaExecutor(const ModelSource& source,
                                                           const kernels::cuda::DevicePool& pool,
                                                           const CudaExecutorOptions& options = {});

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_EXECUTOR_H_
