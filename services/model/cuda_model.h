// A model's weights in a GPU's memory, and what may be taken of that memory: what stays while
// executors come and go.
#ifndef FOLIO_SERVICES_MODEL_CUDA_MODEL_H_
#define FOLIO_SERVICES_MODEL_CUDA_MODEL_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/memory.h"
#include "services/model/device_weights.h"
#include "services/model/model_source.h"
#include "services/model/tensor_reader.h"

namespace folio::model {

struct CudaModelOptions {
  int device = 0;
  // Of the device's memory, for weights and executors, without the pool; 0: as much as there is.
  size_t gpu_memory = 0;
  int load_threads = 1;
  LoadProgress progress = nullptr;  // while weights are loaded
};

// The weights are immutable. The memory is for one thread at a time: that of whoever makes an
// executor, uses or destroys it.
class CudaModel {
 public:
  // Makes the device the calling thread's. FAILED_PRECONDITION: no driver, or not that device.
  // INVALID_ARGUMENT names what the kernels do not serve. RESOURCE_EXHAUSTED says what did not fit.
  // The source's own errors pass through.
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

#endif  // FOLIO_SERVICES_MODEL_CUDA_MODEL_H_
