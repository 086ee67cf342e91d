// Transformer is the forward pass over one step's batch, on CPU kernels. It knows rows, not
// sequences: PlaceLayer says for each layer where a row's K and V go and what the row attends to.
//
// As one rank of a tensor-parallel group it computes with its shard of the weights. The hidden
// state is the same on all ranks, because the products of `out` and `down` are summed over them.
#ifndef FOLIO_SERVICES_MODEL_CPU_TRANSFORMER_H_
#define FOLIO_SERVICES_MODEL_CPU_TRANSFORMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cpu/ops.h"
#include "services/model/cpu/activation_buffer.h"
#include "services/model/cpu/cpu_communicator.h"
#include "services/model/cpu/weights.h"
#include "services/model/executor/executor.h"
#include "services/model/executor/forward_rows.h"
#include "services/model/executor/rope.h"

namespace folio::model {

// Fills in one layer's slots [rows] and runs [runs].
using PlaceLayer = absl::FunctionRef<void(uint32_t layer, absl::Span<kernels::AppendSlot> slots,
                                          absl::Span<kernels::AttentionItem> runs)>;

// Holds scratch memory for `max_rows` rows, made once. Not thread-safe.
class Transformer {
 public:
  // Rows of logits that one call of Logits may want.
  static constexpr uint32_t kMaxLogitRows = 32;

  // `ops` and `threads` must outlive it. `weights` are the shard of the group's rank.
  Transformer(std::shared_ptr<const ModelWeights> weights, const kernels::cpu::CpuOps& ops,
              kernels::ThreadPool& threads, const kernels::PoolView& pages, uint32_t max_rows,
              CpuGroup group = {});

  // Runs the layers and keeps the last hidden state of every row until the next call. The only
  // errors are the group's.
  absl::Status Forward(const ForwardRows& rows, PlaceLayer place);

  // Logits of some rows of the last Forward, at most kMaxLogitRows: [rows.size(), vocab], valid
  // until the next call. A row's logits do not depend on the others asked for with it. A rank that
  // does not lead gets no columns.
  absl::StatusOr<kernels::Matrix<const float>> Logits(absl::Span<const uint32_t> rows);

  // Angles of at least `positions` positions, of the other layers or of the rest. The pointers are
  // valid until the next call of this or of Forward.
  kernels::RopeTable Angles(uint32_t positions, bool others) {
    return (others ? *other_rope_ : rope_).Table(positions);
  }

  const ModelConfig& config() const { return weights_->config; }
  // `compact` and `sample` stay 0, because the executor does that work.
  const ExecutorTimes& times() const { return times_; }

 private:
  bool rounds() const { return ops_.activation_bytes() == sizeof(kernels::bf16); }
  absl::Status RunLayer(uint32_t layer, const ForwardRows& forward, const kernels::RopeTable& rope);
  // hidden += in * weight^T, of all ranks. With a norm, which is not empty, the product passes it.
  absl::Status AddProduct(const kernels::RowSplit& split, const kernels::cpu::Activations& in,
                          const kernels::cpu::PackedWeights& weight, absl::Span<const float> norm);
  absl::Status ScoreWindows(const ForwardRows& rows, uint32_t layer);

  // Adds to qkv_ what was lost when layer 0's input was rounded to bf16. Layer 0's K and V are
  // functions of the token alone, so scores of repeated tokens lie close together there, and
  // without this the rounding would decide which of them are kept.
  void AddRoundingLoss(const kernels::RowSplit& split);

  std::shared_ptr<const ModelWeights> weights_;
  const kernels::cpu::CpuOps& ops_;
  kernels::ThreadPool& threads_;
  kernels::PoolView pages_;
  kernels::AttentionShape shape_;
  uint32_t max_rows_;
  RopeAngles rope_;
  std::optional<RopeAngles> other_rope_;           // if the model has other layers
  std::unique_ptr<CpuCommunicator> communicator_;  // null: alone
  ExecutorTimes times_;

  ActivationBuffer hidden_;    // float [max_rows, hidden]
  ActivationBuffer normed_;    // [max_rows, hidden]
  ActivationBuffer qkv_;       // float [max_rows, (heads + 2 kv_heads) * head_dim]
  ActivationBuffer q_;         // [max_rows, heads * head_dim]
  ActivationBuffer attended_;  // [max_rows, heads * head_dim]
  ActivationBuffer ffn_;       // [max_rows, ffn]
  ActivationBuffer loss_;      // bf16 [max_rows, hidden]; none when activations are float32
  ActivationBuffer gathered_;  // float [kMaxLogitRows, hidden]
  ActivationBuffer logits_;    // float [kMaxLogitRows, outputs]
  ActivationBuffer partial_;   // float [max_rows, hidden]; none when alone and without norms behind
  std::vector<kernels::AppendSlot> slots_;
  std::vector<kernels::AttentionItem> runs_;
  std::vector<kernels::WindowItem> windows_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CPU_TRANSFORMER_H_
