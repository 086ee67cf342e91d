// LoadedModel is a model that is ready to run, with its descriptions for the manager and for
// clients.
#ifndef FOLIO_SERVICES_WORKER_DEVICE_LOADED_MODEL_H_
#define FOLIO_SERVICES_WORKER_DEVICE_LOADED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "folio/v1/inference.pb.h"
#include "folio/v1/types.pb.h"
#include "kernels/cpu/ops.h"
#include "kernels/views.h"
#include "services/model/cpu/weights.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/model/tp/shard.h"
#include "services/worker/device/gpu.h"
#include "services/worker/device/pool_user.h"
#include "services/worker/device/rank_group.h"

namespace folio::worker {

// The choice of arithmetic.
inline constexpr char kFp8[] = "fp8";
inline constexpr char kLibraries[] = "libraries";
// How quantised matrices are held.
inline constexpr char kAsIs[] = "as-is";
inline constexpr char kWeightsAuto[] = "auto";
struct ComputeOptions {
  std::string compute = "bfloat16";  // or kFp8 on a GPU, or "float32" (plain) on the CPU
  std::string kernels = "auto";      // or a family of bfloat16 kernels, or kLibraries on a GPU
  // kAsIs, "bfloat16", or kWeightsAuto: as is with the CPU's bfloat16 kernels.
  std::string weights = kWeightsAuto;
  int threads = 1;  // they compute, or with a GPU load the weights
};

// The model, and how it is served.
struct ModelOptions {
  std::string path;
  std::string name = {};  // empty: the model's own
  uint32_t page_tokens = 16;
  uint32_t max_context = 0;  // tokens of a sequence, or 0 for all that the model is made for
};

// The CPU's kernels. INVALID_ARGUMENT or FAILED_PRECONDITION begins with the flag's name.
absl::StatusOr<std::unique_ptr<kernels::cpu::CpuOps>> MakeOps(const ComputeOptions& options);

// Immutable once loaded, and thread-safe, except for a GPU's executors (see GpuModel). A rank has a
// shard of the weights. Descriptions are those of the whole model, except for the bytes of weights.
class LoadedModel {
 public:
  // Errors name the file and what is wrong with it, or the flag. `gpu` is the GPU that this rank
  // computes on, if any, and must outlive the model.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const ModelOptions& options,
                                                           const ComputeOptions& compute,
                                                           const model::LoadProgress& progress,
                                                           const TpRank& self = {},
                                                           Gpu* gpu = nullptr);

  const model::ModelConfig& config() const { return config_; }  // of the whole model
  // This rank's shard, or null for a worker of one rank.
  const model::Shard* shard() const {
    return shards_.size() > 1 ? &shards_[self_.rank.value()] : nullptr;
  }
  const model::Tokenizer& tokenizer() const { return *tokenizer_; }
  const folio::v1::ModelLayout& layout() const { return layout_; }
  const folio::v1::GetModelResponse& description() const { return description_; }
  bool on_gpu() const { return gpu_ != nullptr; }
  // How quantised matrices are held.
  const model::HeldMatrices& held() const {
    return on_gpu_ != nullptr ? on_gpu_->held() : weights_->held;
  }

  // Describes this model to an attachment to the manager.
  PoolUser pool_user() const { return {&layout_, shard(), gpu_}; }

  // Connects the GPUs of all ranks of `host`, or returns null where ranks compute on the CPU. All
  // ranks call it together. Errors are those of GpuModel::MakeCommunicator and do not end `host`.
  absl::StatusOr<std::shared_ptr<model::CudaCommunicator>> MakeCommunicator(
      collective::Collective& host, uint32_t max_rows) const;
  // The executor shares the weights. `pool` must outlive it, and so must `group`, which is required
  // if there are several ranks. The leader gets an executor that has the other ranks follow.
  absl::StatusOr<std::unique_ptr<model::Executor>> MakeExecutor(
      const kernels::PoolView& pool, uint32_t max_rows, const RankGroup* group = nullptr) const;

 private:
  LoadedModel() = default;
  // Both load the weights and return the name of the kernels.
  absl::StatusOr<std::string> LoadForCpu(const model::ModelSource& source, model::HeldWeights held,
                                         const model::LoadProgress& progress);
  absl::StatusOr<std::string> LoadForGpu(const model::ModelSource& source, model::HeldWeights held,
                                         const model::LoadProgress& progress);
  void Describe(absl::string_view kernels);
  absl::StatusOr<std::unique_ptr<model::Executor>> MakeOwnExecutor(const kernels::PoolView& pool,
                                                                   uint32_t max_rows,
                                                                   const RankGroup* group) const;

  ComputeOptions options_;
  TpRank self_;
  model::ModelConfig config_;
  std::vector<model::Shard> shards_;  // of all ranks
  std::unique_ptr<model::Tokenizer> tokenizer_;
  std::shared_ptr<const model::ModelWeights> weights_;  // these, or those of
  Gpu* gpu_ = nullptr;
  std::unique_ptr<const GpuModel> on_gpu_;
  folio::v1::ModelLayout layout_;
  folio::v1::GetModelResponse description_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_DEVICE_LOADED_MODEL_H_
