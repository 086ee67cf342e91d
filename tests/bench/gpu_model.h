// GpuModel is a large model of random weights on a GPU (or on the emulator), with its pool, a
// coordinator in this process and the worker's own step loop over both. It is for benchmarks.
#ifndef FOLIO_TESTS_BENCH_GPU_MODEL_H_
#define FOLIO_TESTS_BENCH_GPU_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/memory.h"
#include "services/base/clock.h"
#include "services/cache/coordinator.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/bench/random_source.h"
#include "tests/bench/serving_harness.h"

namespace folio::bench {

struct GpuModelOptions {
  uint64_t pool_bytes = 0;   // at most, or 0 for the rest beside weights and steps
  uint32_t max_rows = 2048;  // of a step
  uint32_t max_batch = 160;  // sequences at a time
  // The type of the layers' matrices is bf16 or E4M3.
  kernels::cuda::DataType type = kernels::cuda::DataType::kBf16;
};

enum class Prompts {
  kComputed,
  kSynthetic,  // see synthetic_prompts.h
};

// Pages and scores are random numbers at first, so that attention and policies can read prompts
// that were never computed.
class GpuModel {
 public:
  // Errors are those of MakeCudaExecutor. RESOURCE_EXHAUSTED if there is no room for the pool.
  static absl::StatusOr<std::unique_ptr<GpuModel>> Make(const model::ModelConfig& config,
                                                        const GpuModelOptions& options);

  // Only one may live at a time. Its step loop is new, on the same executor and pool.
  std::unique_ptr<ServingHarness> Serve(Prompts prompts);

  const model::ModelConfig& config() const { return source_.config(); }
  const ModelCosts& costs() const { return costs_; }
  kernels::cuda::DataType type() const { return options_.type; }
  const kernels::cuda::DevicePool& pool() const { return pool_; }
  // The views as the device addresses them.
  const model::DeviceWeights& weights() const { return source_.filled(); }
  const kernels::RopeTable& angles() const { return angles_; }
  // Call it only while no harness serves.
  model::Executor& executor() { return *executor_; }

 private:
  GpuModel(const model::ModelConfig& config, const GpuModelOptions& options)
      : options_(options), source_(config), costs_(CostsOf(config, options.type)) {}
  absl::Status MakePool(uint64_t free_bytes);
  absl::Status MakeAngles();

  const GpuModelOptions options_;
  RealClock clock_;
  RandomSource source_;
  const ModelCosts costs_;
  kernels::cuda::DeviceMemory memory_{0};
  kernels::cuda::DeviceBuffer pages_, angles_memory_;
  kernels::cuda::PinnedBuffer board_;
  kernels::RopeTable angles_;       // on the device
  kernels::cuda::DevicePool pool_;  // the board's address is the device's
  kernels::PoolView host_pool_;     // the board's address is the host's, and there are no pages
  std::unique_ptr<cache::Coordinator> coordinator_;
  std::unique_ptr<model::Tokenizer> tokenizer_;
  std::shared_ptr<model::Executor> executor_;
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_GPU_MODEL_H_
