// CudaModel is a model's weights in a GPU's memory, and the budget of that memory. It stays while
// executors are made and destroyed: a worker makes a new one for each attachment to a manager.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_MODEL_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_MODEL_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda/device_weights.h"
#include "services/model/source/model_source.h"
#include "services/model/source/tensor_reader.h"

namespace folio::model {

struct CudaModelOptions {
  int device = 0;
  // The most device memory that weights and executors may take, without the pool. 0 means all free
  // memory.
  size_t gpu_memory = 0;
  // The type of the layers' matrices is bf16, or E4M3 where the GPU multiplies it.
  kernels::cuda::DataType type = kernels::cuda::DataType::kBf16;
  // Matrices of bf16 that the source has quantised may stay so.
  HeldWeights held = HeldWeights::kBfloat16;
  int load_threads = 1;
  LoadProgress progress = nullptr;  // while weights are loaded
};

// The weights are immutable. The memory is for one thread at a time: the thread that makes, uses or
// destroys an executor.
class CudaModel {
 public:
  // Makes the device the calling thread's. FAILED_PRECONDITION: no driver, or not that device.
  // INVALID_ARGUMENT and UNIMPLEMENTED name what the kernels or the GPU do not serve.
  // RESOURCE_EXHAUSTED says what did not fit. The source's own errors pass through.
  static absl::StatusOr<std::shared_ptr<CudaModel>> Load(const ModelSource& source,
                                                         const CudaModelOptions& options);
  CudaModel(const CudaModel&) = delete;
  CudaModel& operator=(const CudaModel&) = delete;
  ~CudaModel();

  int device() const { return device_; }
  const DeviceWeights& weights() const { return *weights_; }
  kernels::cuda::DeviceMemory& memory() { return memory_; }

 private:
  explicit CudaModel(const CudaModelOptions& options)
      : device_(options.device), memory_(options.gpu_memory) {}

  const int device_;
  kernels::cuda::DeviceMemory memory_;
  std::unique_ptr<const DeviceWeights> weights_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_MODEL_H_
