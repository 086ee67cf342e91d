// NcclGroup is a group of ranks that exchange device memory by NCCL, on a stream, between kernels.
// All ranks make the same calls in the same order.
//
// Calls enqueue and do not wait for the stream; NCCL itself is never left to block. The first call
// of a kind and size may wait for the other ranks to make it: NCCL connects them then. A group
// fails as a whole: once a call has failed, or Abort was called, every call says why and the group
// is aborted, which also ends kernels that wait for a peer. The contents of buffers are then
// undefined.
//
// Calls may be recorded in a CUDA graph: by all ranks, or by none. Their graphs are then launched
// together, and destroyed before the group.
//
// NCCL may never notice that a rank has died. The ranks' collective on the host does
// (services/collective), and its owner calls Abort.
#ifndef FOLIO_SERVICES_MODEL_CUDA_NCCL_GROUP_H_
#define FOLIO_SERVICES_MODEL_CUDA_NCCL_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/cuda/types.h"
#include "services/base/ids.h"

namespace folio::kernels::cuda {

class NcclGroup {
 public:
  // Makes the id, 128 bytes, that the leader of a group gives to all ranks.
  static absl::StatusOr<std::string> MakeId();

  struct Options {
    std::string id;
    Rank rank;
    uint32_t ranks = 1;
    int device = 0;  // CUDA's number, one per rank; see NCCL_MULTI_RANK_GPU_ENABLE for several
    // How long the ranks may take to meet, and an enqueued call to be taken by NCCL.
    absl::Duration timeout = absl::Seconds(30);
    // Called while Join waits; an error ends that.
    std::function<absl::Status()> check = nullptr;
  };
  // Waits until all ranks have come. DEADLINE_EXCEEDED when they do not, INVALID_ARGUMENT for an id
  // or a rank that cannot be, UNAVAILABLE with NCCL's reason, or that of `check`.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Join(const Options& options);
  // Aborts; to leave in order, wait for the streams first. Waits for NCCL, which does not end while
  // a graph has recorded one of the group's calls.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // Device memory for buffers of AllReduce, known to all ranks where NCCL has symmetric memory,
  // which spares a copy. All ranks ask for the same sizes in the same order; freed with the group.
  // RESOURCE_EXHAUSTED names the size.
  absl::StatusOr<void*> Allocate(size_t bytes);

  // values[i] becomes the sum of all ranks', the same bits on all of them.
  absl::Status AllReduce(void* values, size_t count, DataType type, Stream stream);
  // The leader's `all` becomes what the ranks give as `mine`, in their order; sizes[r] is the bytes
  // of rank r. `all` is null on the others. With `everyone`, all ranks have an `all`.
  absl::Status Gather(const void* mine, absl::Span<const size_t> sizes, void* all, bool everyone,
                      Stream stream);
  // The leader's bytes become those of all.
  absl::Status Broadcast(void* bytes, size_t size, Stream stream);

  // The error that NCCL has noticed in the background, if any. A thread that waits for a stream
  // calls this from time to time.
  absl::Status Health();
  // Ends the group on this rank; the first reason stays. Any thread; waits for a call that is under
  // way, which ends for it. Streams stop soon after, also within graphs.
  void Abort(const absl::Status& why);

 private:
  struct State;
  explicit NcclGroup(std::unique_ptr<State> state);
  void GiveWindowsBack();

  std::unique_ptr<State> state_;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_SERVICES_MODEL_CUDA_NCCL_GROUP_H_
