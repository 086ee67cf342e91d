// The Llama family's forward pass over one step's batch, on CPU kernels. It knows rows, not
// sequences: where K and V of a row go and what it attends to is told per layer.
//
// As one rank of a tensor-parallel group it computes with its shard of the weights. The hidden
// state is the same on all ranks: what `out` and `down` add to it is summed over them.
#ifndef FOLIO_SERVICES_MODEL_TRANSFORMER_H_
#define FOLIO_SERVICES_MODEL_TRANSFORMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cpu/ops.h"
#include "services/model/activation_buffer.h"
#include "services/model/executor.h"
#include "services/model/rank_exchange.h"
#include "services/model/rope.h"
#include "services/model/weights.h"

namespace folio::model {

// The last rows of an attention run score its slots.
struct ScoringRows {
  uint32_t run = 0;
  WindowScore window;
};

// Rows of one forward pass: decode rows, then prompt rows.
struct ForwardRows {
  kernels::cpu::RowSplit split;
  absl::Span<const uint32_t> ids;  // [rows] tokens, each below the vocabulary
  uint32_t positions = 0;          // one more than the largest logical position
  uint32_t runs = 0;               // attention runs per layer
  absl::Span<const ScoringRows> windows = {};
};

// Fills in one layer's slots [rows] and runs [runs].
using PlaceLayer = absl::FunctionRef<void(uint32_t layer, absl::Span<kernels::AppendSlot> slots,
                                          absl::Span<kernels::AttentionRun> runs)>;

// Holds scratch memory for `max_rows` rows, made once. Not thread-safe.
class Transformer {
 public:
  // Rows of logits that one call of Logits may want.
  static constexpr uint32_t kMaxLogitRows = 32;

  // `ops` and `threads` must outlive it; `weights` are the shard of the group's rank.
  Transformer(std::shared_ptr<const ModelWeights> weights, const kernels::cpu::CpuOps& ops,
              kernels::cpu::ThreadPool& threads, const kernels::PoolView& pages, uint32_t max_rows,
              RankGroup group = {});

  // Runs the layers; the last hidden state of every row stays until the next call. The only errors
  // are the group's.
  absl::Status Forward(const ForwardRows& rows, PlaceLayer place);

  // Logits of some rows of the last Forward, at most kMaxLogitRows: [rows.size(), vocab], valid
  // until the next call. A row's logits do not depend on the others asked for with it. A rank that
  // does not lead gets no columns.
  absl::StatusOr<kernels::Matrix<const float>> Logits(absl::Span<const uint32_t> rows);

  // Angles of at least `positions` positions; the pointers hold until the next call of this or of
  // Forward.
  kernels::cpu::RopeTable Angles(uint32_t positions) { return rope_.Table(positions); }

  const ModelConfig& config() const { return weights_->config; }
  // `compact` and `sample` stay 0: they are not done here.
  const ExecutorTimes& times() const { return times_; }

 private:
  bool rounds() const { return ops_.activation_bytes() == sizeof(kernels::bf16); }
  absl::Status RunLayer(uint32_t layer, const ForwardRows& forward,
                        const kernels::cpu::RopeTable& rope);
  // hidden += in * weight^T, of all ranks.
  absl::Status AddProduct(const kernels::cpu::RowSplit& split, const kernels::cpu::Activations& in,
                          const kernels::cpu::PackedWeights& weight);
  absl::Status ScoreWindows(const ForwardRows& rows);

  // Adds to qkv_ what was lost when layer 0's input was rounded to bf16. Layer 0's K and V are
  // functions of the token alone, so scores of repeated tokens lie close together there, and
  // without this the rounding would decide which of them are kept.
  void AddRoundingLoss(const kernels::cpu::RowSplit& split);

  std::shared_ptr<const ModelWeights> weights_;
  const kernels::cpu::CpuOps& ops_;
  kernels::cpu::ThreadPool& threads_;
  kernels::PoolView pages_;
  kernels::cpu::AttentionShape shape_;
  uint32_t max_rows_;
  RopeAngles rope_;
  std::unique_ptr<RankExchange> exchange_;  // null: alone
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
  ActivationBuffer partial_;   // float [max_rows, hidden]; none when alone
  std::vector<kernels::AppendSlot> slots_;
  std::vector<kernels::AttentionRun> runs_;
  std::vector<kernels::WindowRun> windows_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TRANSFORMER_H_
