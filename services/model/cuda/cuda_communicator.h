// CudaCommunicator exchanges data between the ranks of a tensor-parallel group on their GPUs. It is
// the twin of CpuCommunicator. Every rank enqueues the same step over the same rows with its shard
// of the weights, and sums, logits and queries that are needed whole go through here, on the step's
// stream.
//
// Calls enqueue and do not wait, except for Agree and Await. Those that enqueue may be recorded in
// a graph, if all ranks record the same calls and launch their graphs together. An error ends the
// group, and the contents of buffers are then undefined. Not thread-safe, except for Abort.
#ifndef FOLIO_SERVICES_MODEL_CUDA_CUDA_COMMUNICATOR_H_
#define FOLIO_SERVICES_MODEL_CUDA_CUDA_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::model {

class CudaCommunicator {
 public:
  virtual ~CudaCommunicator() = default;

  virtual bool leads() const = 0;

  // The buffer that a rank writes its part of a sum to: bf16 [rows, hidden].
  virtual kernels::cuda::Tensor partial(uint32_t rows) const = 0;
  // Replaces it with the sum of all ranks' parts, with the same bits on all ranks.
  virtual absl::Status AllReduce(kernels::cuda::Stream stream, uint32_t rows) = 0;

  // Gathers each rank's logits, float32 [rows, its outputs], into those of the whole vocabulary on
  // the leader. Other ranks get no columns. Valid until the next call.
  virtual absl::StatusOr<kernels::cuda::Tensor> GatherLogits(kernels::cuda::Stream stream,
                                                             const kernels::cuda::Tensor& own) = 0;
  // Sends the leader's sampled tokens to all ranks, which feed them to their next step.
  virtual absl::Status BroadcastTokens(kernels::cuda::Stream stream, void* tokens,
                                       size_t bytes) = 0;

  // Whether some KV head is shared by several ranks, which cut its query heads between them. The
  // queries that score resident tokens must then be gathered. The same on all ranks.
  virtual bool splits_groups() const = 0;
  struct GroupQueries {
    kernels::cuda::Tensor q;  // bf16 [rows, heads of the group * head_dim]
    kernels::AttentionShape shape;
  };
  // `q` is the rank's own, bf16 [rows, its heads * head_dim]. Valid until the next call.
  virtual absl::StatusOr<GroupQueries> GatherQueries(kernels::cuda::Stream stream,
                                                     const kernels::cuda::Tensor& q) = 0;

  // Asks all ranks whether they can do `subject`, which only all of them may do; see rank_vote.h.
  // The answer is empty if all give no objection, and otherwise says which rank has one. Waits for
  // the hosts of all ranks, not for their GPUs.
  virtual absl::StatusOr<std::string> Agree(uint64_t subject, absl::string_view objection) = 0;

  // Waits until the step's stream has passed `done`. OK if the step's results are valid, otherwise
  // why the group failed: after a failure streams drain without effect. A wait longer than the
  // group's timeout ends the group, and with it every wait for a peer. It cannot end a hang of this
  // rank's own GPU.
  virtual absl::Status Await(const kernels::cuda::Event& done) = 0;
  // Ends the group on this rank, and what its stream waits for. Thread-safe.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_CUDA_COMMUNICATOR_H_
