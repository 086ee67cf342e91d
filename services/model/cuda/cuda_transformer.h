// CudaTransformer is the forward pass over one step's batch on a GPU. It is the twin of Transformer
// and knows rows, not sequences. Everything is enqueued on one stream, and nothing waits, except
// where memory must grow.
//
// Activations are bf16 where products read them, or quantised from that where weights are E4M3, the
// hidden state and what products add up are float32, and so are queries, keys and values until they
// are turned and stored.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_TRANSFORMER_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_TRANSFORMER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/ops/decode_attention.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/types.h"
#include "services/model/cuda/activations.h"
#include "services/model/cuda/cuda_communicator.h"
#include "services/model/cuda/cuda_executor_options.h"
#include "services/model/cuda/cuda_products.h"
#include "services/model/cuda/cuda_step.h"
#include "services/model/cuda/device_weights.h"
#include "services/model/executor/rope.h"

namespace folio::model {

// AttentionWorkspace is the page-locked memory of one step's attention plans. It must not be
// touched while the step runs.
class AttentionWorkspace {
 public:
  // RESOURCE_EXHAUSTED: there is no more.
  absl::StatusOr<void*> at(size_t plan);

 private:
  std::vector<kernels::cuda::PinnedBuffer> plans_;
};

// Not thread-safe.
class CudaTransformer {
 public:
  // Rows of logits that one call of Logits may want.
  static constexpr uint32_t kMaxLogitRows = 128;
  // The size of an attention plan, enough for as many rows and split contexts as a step may have.
  static constexpr size_t kPlanBytes = size_t{1} << 20;

  // All references must outlive it. The angles are on the device, for the whole context.
  // `processors` is the GPU's number of multiprocessors. With a communicator in `options` the
  // weights are the rank's shard. Errors are DeviceMemory's, and INVALID_ARGUMENT for a shape that
  // the kernels do not serve.
  static absl::StatusOr<std::unique_ptr<CudaTransformer>> Make(
      const DeviceWeights& weights, kernels::cuda::DeviceMemory& memory,
      const kernels::cuda::DevicePool& pool, const LayerAngles& rope, uint32_t processors,
      kernels::cuda::Stream stream, const CudaExecutorOptions& options);

  // Chooses algorithms for batches of usual sizes by trying them. Waits.
  absl::Status Tune() { return products_->Tune(hidden_, qkv_, attended_); }

  // [part][lengths], empty for parts whose attention is not planned.
  using Plans = std::vector<std::vector<kernels::cuda::AttentionPlan>>;
  // Plans the step's attention, for Forward: enqueues a copy per plan.
  absl::StatusOr<Plans> Plan(const StepInputs& step, AttentionWorkspace& workspace);

  // Runs the layers over tokens `ids`, [rows] on the device, and keeps the last hidden state of
  // every row until the next call. For a padded step the kernels' arguments depend only on the
  // places of the step's arrays and on the plans, so that a graph of it can be launched again.
  absl::Status Forward(const StepInputs& step, const Plans& plans, const StepInputBuilder& layout,
                       const uint32_t* ids);

  // Logits of some rows of the last Forward, at most kMaxLogitRows: float32 [rows.size, vocab],
  // until the next call. On a rank that does not lead they have no columns.
  absl::StatusOr<kernels::cuda::Tensor> Logits(kernels::cuda::DeviceArray<uint32_t> rows);

  const ModelConfig& config() const { return weights_.config; }
  CudaCommunicator* communicator() const { return communicator_; }
  const LayerAngles& rope() const { return rope_; }

 private:
  CudaTransformer(const DeviceWeights& weights, kernels::cuda::DeviceMemory& memory,
                  const kernels::cuda::DevicePool& pool, const LayerAngles& rope, uint32_t max_rows,
                  uint32_t processors, kernels::cuda::Stream stream,
                  CudaCommunicator* communicator);
  absl::Status Allocate(bool decode_kernels);
  absl::Status AllocateDecodeSpace();
  // Whether the part is served by the attention of decode rows, which wants no plan.
  bool Decodes(const AttentionPart& part) const;

  absl::Status RunLayer(uint32_t layer, const StepInputs& step, const StepInputBuilder& layout,
                        const Plans& plans);
  // These do nothing if the model has no such norms, or if its queries keep their size.
  absl::Status NormHeads(const DeviceLayerWeights& weights, const kernels::cuda::Tensor& qkv);
  absl::Status ScaleQueries(const kernels::cuda::DeviceArray<kernels::AppendSlot>& slots,
                            const kernels::cuda::Tensor& qkv);
  // Whether one kernel rotates and stores a layer's tokens and attends, which is so if all rows
  // decode.
  bool AppendsAtOnce(uint32_t layer, const StepInputs& step) const;
  absl::Status AppendAndAttend(const AttentionPart::Layer& of,
                               const kernels::cuda::DecodeRows& rows);
  absl::Status Attend(uint32_t layer, const StepInputs& step, const Plans& plans);
  absl::Status ScoreWindows(uint32_t layer, const StepInputs& step);
  // Memory of a plan on the device, and of its copy on the host.
  kernels::cuda::AttentionMemory PlanMemory(size_t plan, void* pinned) const;

  const DeviceWeights& weights_;
  kernels::cuda::DeviceMemory& memory_;
  kernels::cuda::DevicePool pool_;
  LayerAngles rope_;
  kernels::AttentionShape shape_;
  uint32_t max_rows_, processors_;
  kernels::cuda::Stream stream_;
  CudaCommunicator* communicator_;
  std::unique_ptr<CudaProducts> products_;

  Activations hidden_;    // float32 [max_rows, hidden]
  Activations qkv_;       // float32 [max_rows, (heads + 2 kv_heads) * head_dim]
  Activations q_;         // [max_rows, heads * head_dim]
  Activations attended_;  // [max_rows, heads * head_dim]
  Activations gathered_;  // float32 [kMaxLogitRows, hidden]
  kernels::cuda::DeviceBuffer attention_parts_, decode_space_, window_scratch_;
  std::vector<kernels::cuda::DeviceBuffer> plan_space_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_TRANSFORMER_H_
