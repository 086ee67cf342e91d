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

struct CudaRigOptions {
  int device = 0;
  uint32_t max_rows = 256;
  size_t gpu_memory = 0;
  int load_threads = 1;
  bool graphs = true;
  bool tune = true;
  LoadProgress progress = nullptr;
};

class CudaRig {
 public:
  explicit CudaRig(const ModelSource& model, const CudaRigOptions& options = {},
                   uint32_t num_pages = 400);
  ~CudaRig();

  Executor& executor() { return **executor_; }
  const absl::Status& made() const { return executor_.status(); }
  // Of the same weights, on the same pages, in place of the first one.
  void MakeAnotherExecutor();
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
  const CudaExecutorOptions options_;
  absl::StatusOr<std::shared_ptr<CudaModel>> model_;
  absl::StatusOr<std::unique_ptr<Executor>> executor_;
};

// Pages and boards, to the bit.
void ExpectSameMemory(const CudaRig& one, const CudaRig& other);

// Whether there is the emulation in place of a GPU.
bool Emulated();

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_CUDA_EXECUTOR_RIG_H_
