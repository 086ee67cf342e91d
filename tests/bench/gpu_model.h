// A large model of random weights on a GPU (or its emulation), with its pool, a coordinator in this
// process and the worker's own step loop over both. For benchmarks.
#ifndef FOLIO_TESTS_BENCH_GPU_MODEL_H_
#define FOLIO_TESTS_BENCH_GPU_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/memory.h"
#include "services/cache/coordinator.h"
#include "services/common/clock.h"
#include "services/model/executor.h"
#include "services/model/tokenizer.h"
#include "tests/bench/random_source.h"
#include "tests/bench/serving_rig.h"

namespace folio::bench {

struct GpuModelOptions {
  uint64_t pool_bytes = 0;   // at most; 0: what the weights and the steps leave
  uint32_t max_rows = 2048;  // of a step
  uint32_t max_batch = 160;  // sequences at a time
};

enum class Prompts {
  kComputed,
  kSynthetic,  // see synthetic_prompts.h
};

// Pages and scores are random numbers at first, so that what was never computed can be attended to
// and be decided by.
class GpuModel {
 public:
  // Errors are MakeCudaExecutor's; RESOURCE_EXHAUSTED: the pool would have no room.
  static absl::StatusOr<std::unique_ptr<GpuModel>> Make(const model::ModelConfig& config,
                                                        const GpuModelOptions& options);

  // One at a time. The step loop is a fresh one, on the same executor and pool.
  std::unique_ptr<ServingRig> Serve(Prompts prompts);

  const model::ModelConfig& config() const { return source_.config(); }
  const ModelCosts& costs() const { return costs_; }
  const kernels::cuda::DevicePool& pool() const { return pool_; }
  // As the device has them.
  const model::DeviceWeights& weights() const { return source_.filled(); }
  const kernels::RopeTable& angles() const { return angles_; }
  // While no rig serves.
  model::Executor& executor() { return *executor_; }

 private:
  GpuModel(const model::ModelConfig& config, const GpuModelOptions& options)
      : options_(options), source_(config), costs_(CostsOf(config)) {}
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
