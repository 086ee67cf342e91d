// CudaExecutorState holds the parts of an executor on a GPU: its memory on the device, and the
// objects that use it.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_STATE_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda/cuda_executor_options.h"
#include "services/model/cuda/cuda_model.h"
#include "services/model/cuda/cuda_sampling.h"
#include "services/model/cuda/cuda_step.h"
#include "services/model/cuda/cuda_transformer.h"
#include "services/model/cuda/device_tables.h"
#include "services/model/cuda/device_weights.h"

namespace folio::model {

// Members are declared in the order in which they depend on each other. The destructor waits for
// the stream.
struct CudaExecutorState {
  CudaExecutorState(std::shared_ptr<CudaModel> of, const kernels::cuda::DevicePool& pool,
                    const CudaExecutorOptions& options, kernels::cuda::OwnedStream stream)
      : model(std::move(of)),
        device(model->device()),
        max_rows(options.max_rows),
        graphs(options.graphs),
        communicator(options.communicator),
        pool(pool),
        memory(model->memory()),
        stream(std::move(stream)),
        weights(&model->weights()) {}
  CudaExecutorState(const CudaExecutorState&) = delete;
  CudaExecutorState& operator=(const CudaExecutorState&) = delete;
  ~CudaExecutorState();

  // Errors are those of MakeCudaExecutor.
  static absl::StatusOr<std::unique_ptr<CudaExecutorState>> Make(
      std::shared_ptr<CudaModel> model, const kernels::cuda::DevicePool& pool,
      const CudaExecutorOptions& options);

  // Waits until the device has done all that was enqueued, or has failed.
  void Wait() const;

  const std::shared_ptr<CudaModel> model;
  const int device;
  const uint32_t max_rows;
  const bool graphs;
  const std::shared_ptr<CudaCommunicator> communicator;  // null for one rank
  const kernels::cuda::DevicePool pool;
  kernels::cuda::DeviceMemory& memory;  // the model's
  kernels::cuda::OwnedStream stream;
  const DeviceWeights* const weights;
  kernels::cuda::DeviceBuffer angles;        // float [cos, sin][context, head_dim / 2]
  kernels::cuda::DeviceBuffer other_angles;  // of the other layers, if there are some
  LayerAngles rope;                          // the same
  kernels::cuda::DeviceBuffer ids;           // uint32_t [max_rows], fed to a step
  kernels::cuda::DeviceBuffer inputs;   // arrays of a padded step, always at the same addresses
  kernels::cuda::PinnedBuffer counter;  // uint64_t, steps that the device has done
  std::optional<DeviceTables> device_tables;
  std::unique_ptr<StepInputBuilder> layout;
  std::optional<CudaSampling> sampling;
  std::unique_ptr<CudaTransformer> transformer;

 private:
  absl::Status LoadAngles(const ModelConfig& config, bool others,
                          kernels::cuda::DeviceBuffer& buffer, kernels::RopeTable& table);
  absl::Status Load(const CudaExecutorOptions& options, uint32_t processors);
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_EXECUTOR_STATE_H_
