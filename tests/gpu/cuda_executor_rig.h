// A random tiny model on the executor of a GPU, or of its emulation: pages on the device, the board
// in memory of the host that the device reaches.
#ifndef FOLIO_TESTS_GPU_CUDA_EXECUTOR_RIG_H_
#define FOLIO_TESTS_GPU_CUDA_EXECUTOR_RIG_H_

#include <memory>
#include <vector>

#include "kernels/cuda/memory.h"
#include "services/model/cuda_executor.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {

// Two layers, grouped heads of a served size, an FFN and a vocabulary that are no multiples of
// anything.
ModelConfig GpuConfig();

class CudaRig {
 public:
  explicit CudaRig(const ModelSource& model, const CudaExecutorOptions& options = {.max_rows = 256},
                   uint32_t num_pages = 400);
  ~CudaRig();

  Executor& executor() { return **executor_; }
  const absl::Status& made() const { return executor_.status(); }
  TestPool& pool() { return pool_; }
  // The host's view: the board, and no pages.
  kernels::PoolView board() const;
  // What the device's pages hold, of the host's view of the pool.
  std::vector<kernels::bf16> Pages() const;

 private:
  TestPool pool_;  // gives pages; what is in it is the host's, and nobody's here
  kernels::cuda::DeviceMemory memory_{0};
  kernels::cuda::DeviceBuffer pages_;
  float* scores_;
  kernels::cuda::RegisteredMemory board_;
  absl::StatusOr<std::unique_ptr<Executor>> executor_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_CUDA_EXECUTOR_RIG_H_
