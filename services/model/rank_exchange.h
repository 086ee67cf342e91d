// What the ranks of a tensor-parallel group exchange inside a forward pass. Every rank runs the
// same pass over the same rows with its shard of the weights; what has to be whole again goes
// through the collective here.
#ifndef FOLIO_SERVICES_MODEL_RANK_EXCHANGE_H_
#define FOLIO_SERVICES_MODEL_RANK_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/cpu/ops.h"
#include "services/collective/collective.h"
#include "services/model/activation_buffer.h"
#include "services/model/model_source.h"
#include "services/model/shard.h"

namespace folio::model {

// A rank's place in its group.
struct RankGroup {
  std::vector<Shard> shards;                     // of all ranks
  collective::Collective* collective = nullptr;  // null: alone; borrowed
  absl::Duration patience = absl::Seconds(30);   // how long a rank may keep the others waiting
};

// Not thread-safe. Errors are the collective's: the group has ended.
class RankExchange {
 public:
  // `config` is the rank's own, `element_bytes` that of its activations.
  RankExchange(RankGroup group, const ModelConfig& config, size_t element_bytes);

  // hidden += the sum of all ranks' `partial`, which is dense and is overwritten. The same bits on
  // all ranks.
  absl::Status AddSum(kernels::Matrix<float> partial, kernels::Matrix<float> hidden);

  // From each rank's logits, [rows, its outputs] dense, the whole vocabulary's on the leader; no
  // columns elsewhere. Valid until the next call.
  absl::StatusOr<kernels::Matrix<const float>> WholeLogits(kernels::Matrix<const float> own);

  // Queries that score resident tokens, of all query heads that read this rank's KV head; needed
  // where ranks have cut those between them.
  struct GroupQueries {
    kernels::cpu::Activations q;              // [rows of the windows, heads of the group * dim]
    std::vector<kernels::WindowRun> windows;  // of those rows
    kernels::cpu::AttentionShape shape;
  };
  bool splits_groups() const { return shard().splits_groups; }
  // `q` has the queries of all rows of the step. Valid until the next call.
  absl::StatusOr<GroupQueries> WholeGroupQueries(const kernels::cpu::Activations& q,
                                                 absl::Span<const kernels::WindowRun> windows);

 private:
  const Shard& shard() const { return group_.shards[group_.collective->rank().value()]; }
  absl::Time deadline() const { return absl::Now() + group_.patience; }

  const RankGroup group_;
  const uint32_t head_bytes_;  // of one head's query
  const uint32_t head_dim_;
  uint32_t group_heads_ = 0;  // query heads of a KV head, of the whole model
  uint32_t vocab_ = 0;
  std::vector<size_t> sizes_;
  std::vector<std::byte> mine_, all_;
  std::vector<float> logits_;
  ActivationBuffer queries_;
  size_t queries_rows_ = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_RANK_EXCHANGE_H_
