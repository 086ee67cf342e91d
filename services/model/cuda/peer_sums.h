// PeerSums adds up the short sums of decode steps over the ranks of a group, by a kernel of our own
// that reads the other ranks' GPUs (kernels/cuda/ops/peer_sum.h). It is for ranks with a GPU each
// that reach each other. All ranks use it, or none does.
#ifndef FOLIO_SERVICES_MODEL_CUDA_PEER_SUMS_H_
#define FOLIO_SERVICES_MODEL_CUDA_PEER_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/ops/peer_sum.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/peer_memory.h"
#include "kernels/cuda/types.h"
#include "services/base/steady_time.h"
#include "services/collective/collective.h"

namespace folio::model {

// Not thread-safe, except for Abort.
class PeerSums {
 public:
  // Longer sums go through NCCL. Each rank reads the whole array of every other rank, where NCCL's
  // ring moves twice the array in all: at this size, with eight ranks, these reads should take
  // some 5 us over NVLink, which is not measured. It is 64 rows of a hidden size of 2,048.
  static constexpr size_t kMaxBytes = size_t{256} << 10;

  // All ranks of `host` make it together, on the calling threads' devices. Null if some rank cannot
  // map the memory of another one, and the log says why. Errors are those of `host`. `memory`
  // outlives it, and the device has done all sums when it is destroyed.
  static absl::StatusOr<std::unique_ptr<PeerSums>> Make(collective::Collective& host,
                                                        kernels::cuda::DeviceMemory& memory,
                                                        SteadyTime deadline);

  // values[i], bf16, becomes the sum of all ranks', with the same bits on all of them. `count` is a
  // multiple of 8 and has at most kMaxBytes, and `values` begins at a multiple of 16 bytes.
  // Enqueues.
  absl::Status AllReduce(kernels::cuda::Stream stream, void* values, size_t count) const;

  // Ends the sums that wait for another rank, and all later ones. Any thread.
  void Abort();

 private:
  PeerSums() = default;
  // Makes this rank's memory, zeroed.
  absl::StatusOr<kernels::cuda::PeerHandle> Allocate(kernels::cuda::DeviceMemory& memory);
  absl::Status Map(const std::vector<kernels::cuda::PeerHandle>& handles, uint32_t own);

  std::optional<kernels::cuda::DeviceCharge> charge_;
  std::shared_ptr<kernels::cuda::PeerBlock> area_;
  kernels::cuda::DeviceBuffer turns_;
  kernels::cuda::PinnedBuffer ended_;  // uint32_t
  std::vector<kernels::cuda::PeerMemory> peers_;
  kernels::cuda::PeerGroup group_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_PEER_SUMS_H_
