// CudaHarness runs a random tiny model on the executor of a GPU, or on the emulator. Pages are on
// the device, and the board is in memory of the host that the device reaches.
#ifndef FOLIO_TESTS_GPU_CUDA_EXECUTOR_HARNESS_H_
#define FOLIO_TESTS_GPU_CUDA_EXECUTOR_HARNESS_H_

#include <memory>
#include <vector>

#include "kernels/cuda/runtime/memory.h"
#include "services/model/cuda/cuda_executor.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {

// Two layers, grouped heads of a served size, and sizes of FFN and vocabulary that divide by
// nothing useful.
ModelConfig GpuConfig();
// The same with sizes that products of E4M3 serve: multiples of 16.
ModelConfig Fp8Config();

// The emulator switches between the threads of these kernels often, and AddressSanitizer makes each
// switch slow. With it tests of whole executors leave them to tests of kernels.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kDecodeKernels = false;
#else
inline constexpr bool kDecodeKernels = true;
#endif

struct CudaHarnessOptions {
  int device = 0;
  uint32_t max_rows = 256;
  size_t gpu_memory = 0;
  kernels::cuda::DataType type = kernels::cuda::DataType::kBf16;  // of layers' matrices
  HeldWeights held = HeldWeights::kBfloat16;
  int load_threads = 1;
  bool graphs = true;
  bool tune = true;
  bool decode_kernels = kDecodeKernels;
  uint32_t own_rows = 8;  // 0 would choose by time, so that two harnesses might differ
  LoadProgress progress = nullptr;
};

class CudaHarness {
 public:
  explicit CudaHarness(const ModelSource& model, const CudaHarnessOptions& options = {},
                       uint32_t num_pages = 400);
  ~CudaHarness();

  Executor& executor() { return **executor_; }
  const absl::Status& made() const { return executor_.status(); }
  // Replaces the executor by another one of the same weights, on the same pages.
  void MakeAnotherExecutor();
  TestPool& pool() { return pool_; }
  // The host's view: the board, and no pages.
  kernels::PoolView board() const;
  // The contents of the device's pages, in the order of the host's view.
  std::vector<kernels::bf16> Pages() const;
  // Fills a page on the device with NaN. No step may be under way.
  void Damage(PageId page);

 private:
  TestPool pool_;  // gives out page ids; its own memory is not used
  kernels::cuda::DeviceMemory memory_{0};
  kernels::cuda::DeviceBuffer pages_;
  float* scores_;
  kernels::cuda::RegisteredMemory board_;
  kernels::cuda::PinnedBuffer swap_;
  const CudaExecutorOptions options_;
  absl::StatusOr<std::shared_ptr<CudaModel>> model_;
  absl::StatusOr<std::unique_ptr<Executor>> executor_;
};

// Pages and boards, to the bit.
void ExpectSameMemory(const CudaHarness& one, const CudaHarness& other);

// True on the emulator.
bool Emulated();

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_CUDA_EXECUTOR_HARNESS_H_
