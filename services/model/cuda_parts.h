// What an executor on a GPU is made of: memory on the device, and those who use it.
#ifndef FOLIO_SERVICES_MODEL_CUDA_PARTS_H_
#define FOLIO_SERVICES_MODEL_CUDA_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda_executor.h"
#include "services/model/cuda_model.h"
#include "services/model/cuda_sampling.h"
#include "services/model/cuda_step.h"
#include "services/model/cuda_tables.h"
#include "services/model/cuda_transformer.h"
#include "services/model/device_weights.h"

namespace folio::model {

// Members are in the order in which they need each other. Destroying it waits for the stream.
struct CudaParts {
  CudaParts(std::shared_ptr<CudaModel> of, const kernels::cuda::DevicePool& pool,
            const CudaExecutorOptions& options, kernels::cuda::OwnedStream stream)
      : model(std::move(of)),
        device(model->device()),
        max_rows(options.max_rows),
        graphs(options.graphs && options.exchange == nullptr),
        exchange(options.exchange),
        pool(pool),
        memory(model->memory()),
        stream(std::move(stream)),
        weights(&model->weights()) {}
  CudaParts(const CudaParts&) = delete;
  CudaParts& operator=(const CudaParts&) = delete;
  ~CudaParts();

  // Errors are those of MakeCudaExecutor.
  static absl::StatusOr<std::unique_ptr<CudaParts>> Make(std::shared_ptr<CudaModel> model,
                                                         const kernels::cuda::DevicePool& pool,
                                                         const CudaExecutorOptions& options);

  // Until the device has done all that was enqueued, or failed.
  void Wait() const;

  const std::shared_ptr<CudaModel> model;
  const int device;
  const uint32_t max_rows;
  const bool graphs;
  const std::shared_ptr<CudaExchange> exchange;  // of a rank; null: alone
  const kernels::cuda::DevicePool pool;
  kernels::cuda::DeviceMemory& memory;  // the model's
  kernels::cuda::OwnedStream stream;
  const DeviceWeights* const weights;
  kernels::cuda::DeviceBuffer angles;   // float [cos, sin][context, head_dim / 2]
  kernels::RopeTable rope;              // the same
  kernels::cuda::DeviceBuffer ids;      // uint32_t [max_rows], what a step is fed
  kernels::cuda::DeviceBuffer inputs;   // arrays of a padded step, always at the same addresses
  kernels::cuda::PinnedBuffer counter;  // uint64_t, steps that the device has done
  std::optional<CudaTables> tables;
  std::unique_ptr<StepLayout> layout;
  std::optional<CudaSampling> sampling;
  std::unique_ptr<CudaTransformer> transformer;

 private:
  absl::Status LoadAngles(const ModelConfig& config);
  absl::Status Load(const CudaExecutorOptions& options, uint32_t processors);
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_PARTS_H_
