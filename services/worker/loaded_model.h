// A model ready to run, and what is said about it: to the manager, to clients.
#ifndef FOLIO_SERVICES_WORKER_LOADED_MODEL_H_
#define FOLIO_SERVICES_WORKER_LOADED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "folio/v1/inference.pb.h"
#include "folio/v1/types.pb.h"
#include "kernels/cpu/ops.h"
#include "kernels/views.h"
#include "services/model/executor.h"
#include "services/model/shard.h"
#include "services/model/tokenizer.h"
#include "services/model/weights.h"
#include "services/worker/gpu.h"
#include "services/worker/pool_user.h"
#include "services/worker/rank_group.h"

namespace folio::worker {

// How the arithmetic is done.
struct ComputeOptions {
  std::string compute = "bfloat16";  // or, on the CPU, "float32": the plain reference
  std::string kernels = "auto";      // on the CPU: a family of bfloat16 kernels
  int threads = 1;                   // that compute; with a GPU those that load
};

// Of the CPU. INVALID_ARGUMENT or FAILED_PRECONDITION begins with the flag's name.
absl::StatusOr<std::unique_ptr<kernels::cpu::CpuOps>> MakeOps(const ComputeOptions& options);

// Immutable once loaded; thread-safe, but for a GPU's executors: see GpuModel. A rank has a shard
// of the weights; what is said about the model is said about the whole, but for the bytes of the
// weights.
class LoadedModel {
 public:
  // Errors name the file and what is wrong with it. `name` empty: the model's own. `gpu`: what
  // this rank computes on; it outlives the model.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(
      const std::string& path, const std::string& name, uint32_t page_tokens,
      const ComputeOptions& options, const model::LoadProgress& progress, const RankOf& of = {},
      Gpu* gpu = nullptr);

  const model::ModelConfig& config() const { return config_; }  // of the whole
  // Of this rank; null: it is the only one.
  const model::Shard* shard() const {
    return shards_.size() > 1 ? &shards_[of_.rank.value()] : nullptr;
  }
  const model::Tokenizer& tokenizer() const { return *tokenizer_; }
  const folio::v1::ModelLayout& layout() const { return layout_; }
  const folio::v1::GetModelResponse& description() const { return description_; }

  // As whom it attaches.
  PoolUser pool_user() const { return {&layout_, shard(), gpu_}; }

  // On all ranks of `host` together, once they have agreed on their terms. Errors are those of
  // GpuModel::MeetRanks, and do not end `host`.
  absl::StatusOr<RankGroup> MeetRanks(collective::Collective& host, uint32_t max_rows) const;
  // Shares the weights. `pool` must outlive it, and so must `group`, which a rank needs: the leader
  // gets an executor that has the others follow.
  absl::StatusOr<std::unique_ptr<model::Executor>> MakeExecutor(
      const kernels::PoolView& pool, uint32_t max_rows, const RankGroup* group = nullptr) const;

 private:
  LoadedModel() = default;
  // Whichever computes: its weights, and the name of its kernels.
  absl::StatusOr<std::string> LoadForCpu(const model::ModelSource& source,
                                         const model::LoadProgress& progress);
  absl::StatusOr<std::string> LoadForGpu(const model::ModelSource& source,
                                         const model::LoadProgress& progress);
  void Describe(absl::string_view kernels);
  absl::StatusOr<std::unique_ptr<model::Executor>> MakeOwnExecutor(const kernels::PoolView& pool,
                                                                   uint32_t max_rows,
                                                                   const RankGroup* group) const;

  ComputeOptions options_;
  RankOf of_;
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

#endif  // FOLIO_SERVICES_WORKER_LOADED_MODEL_H_
