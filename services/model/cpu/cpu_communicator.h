// CpuCommunicator exchanges data between the ranks of a tensor-parallel group inside a forward
// pass. Every rank runs the same pass over the same rows with its shard of the weights. Sums,
// logits and window queries, which every rank or the leader needs whole, go through the group's
// collective.
#ifndef FOLIO_SERVICES_MODEL_CPU_CPU_COMMUNICATOR_H_
#define FOLIO_SERVICES_MODEL_CPU_CPU_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/cpu/ops.h"
#include "services/base/steady_time.h"
#include "services/collective/collective.h"
#include "services/model/cpu/activation_buffer.h"
#include "services/model/family/model_config.h"
#include "services/model/tp/shard.h"

namespace folio::model {

// A rank's place in its group.
struct CpuGroup {
  std::vector<Shard> shards;                     // of all ranks
  collective::Collective* collective = nullptr;  // borrowed; null for a worker of one rank
  absl::Duration timeout = absl::Seconds(30);    // how long a rank may keep the others waiting
};

// Not thread-safe. Errors are the collective's and mean that the group has ended.
class CpuCommunicator {
 public:
  // `config` is the rank's own. `element_bytes` is the size of one of its activations.
  CpuCommunicator(CpuGroup group, const ModelConfig& config, size_t element_bytes);

  // Adds the sum of all ranks' `partial` to `hidden`, with the same bits on all ranks. `partial` is
  // dense and is overwritten.
  absl::Status AllReduce(kernels::Matrix<float> partial, kernels::Matrix<float> hidden);

  // Makes `partial`, which is dense, the sum of all ranks', with the same bits on all ranks.
  absl::Status Sum(kernels::Matrix<float> partial);

  // Gathers each rank's logits, dense [rows, its outputs], into those of the whole vocabulary on
  // the leader. Other ranks get no columns. Valid until the next call.
  absl::StatusOr<kernels::Matrix<const float>> GatherLogits(kernels::Matrix<const float> own);

  // The queries that score resident tokens, of all query heads that read this rank's KV head. They
  // are gathered where several ranks share a KV head.
  struct GroupQueries {
    kernels::cpu::Activations q;               // [rows of the windows, heads of the group * dim]
    std::vector<kernels::WindowItem> windows;  // of those rows
    kernels::AttentionShape shape;
  };
  bool splits_groups() const { return shard().splits_groups; }
  // `q` has the queries of all rows of the step. Valid until the next call.
  absl::StatusOr<GroupQueries> GatherQueries(const kernels::cpu::Activations& q,
                                             absl::Span<const kernels::WindowItem> windows);

 private:
  const Shard& shard() const { return group_.shards[group_.collective->rank().value()]; }
  SteadyTime deadline() const { return SteadyNow() + group_.timeout; }

  const CpuGroup group_;
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

#endif  // FOLIO_SERVICES_MODEL_CPU_CPU_COMMUNICATOR_H_
