// What the ranks of a tensor-parallel group exchange inside a step on their GPUs. Twin of
// RankExchange: every rank enqueues the same step over the same rows with its shard of the weights;
// what has to be whole again goes through here, on the step's stream.
//
// Calls enqueue and do not wait, but for Await. An error ends the group, which is then of no more
// use; what buffers hold is not defined. Not thread-safe, but for Abort.
#ifndef FOLIO_SERVICES_MODEL_CUDA_EXCHANGE_H_
#define FOLIO_SERVICES_MODEL_CUDA_EXCHANGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::model {

class CudaExchange {
 public:
  virtual ~CudaExchange() = default;

  virtual bool leads() const = 0;

  // Where a rank puts what it computed of a sum: bf16 [rows, hidden].
  virtual kernels::cuda::Tensor partial(uint32_t rows) const = 0;
  // It becomes the sum of all ranks', the same bits on all of them.
  virtual absl::Status SumPartial(kernels::cuda::Stream stream, uint32_t rows) = 0;

  // From each rank's logits, float32 [rows, its outputs], the whole vocabulary's on the leader; no
  // columns elsewhere. Until the next call.
  virtual absl::StatusOr<kernels::cuda::Tensor> WholeLogits(kernels::cuda::Stream stream,
                                                            const kernels::cuda::Tensor& own) = 0;
  // The leader's become everyone's: what was sampled feeds all ranks' next step.
  virtual absl::Status ShareTokens(kernels::cuda::Stream stream, void* tokens, size_t bytes) = 0;

  // Whether ranks have cut the query heads of a KV head between them, the same on all ranks. Those
  // that give scores to resident tokens are then needed whole.
  virtual bool splits_groups() const = 0;
  struct GroupQueries {
    kernels::cuda::Tensor q;  // bf16 [rows, heads of the group * head_dim]
    kernels::AttentionShape shape;
  };
  // `q`: the rank's own, bf16 [rows, its heads * head_dim]. Until the next call.
  virtual absl::StatusOr<GroupQueries> WholeGroupQueries(kernels::cuda::Stream stream,
                                                         const kernels::cuda::Tensor& q) = 0;

  // Waits until the step's stream has passed `done`. OK if what the stream did counts, else why the
  // group has ended: it lets streams run on. A wait longer than the group's patience ends it,
  // and with it what peers keep waiting; not what this rank's own GPU hangs in.
  virtual absl::Status Await(const kernels::cuda::Event& done) = 0;
  // Ends the group on this rank, and what its stream waits for. Any thread.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_EXCHANGE_H_
