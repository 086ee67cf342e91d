// SumOverPeers adds up short arrays of several GPUs by one kernel on each of them, which reads the
// arrays of the others through mapped memory. Calls and errors are as in kernels/cuda/ops/ops.h.
//
// Every rank writes its part to memory that all ranks have mapped, raises a flag at each of the
// others, waits for theirs, and then adds all parts in the order of the ranks in float32. So all
// ranks get the same bits. A part lies in one of two places by turns. A rank writes to a place
// again only after all ranks have raised the flags of the turn between, and thus have read the
// place.
//
// The number of a turn is counted on the device, so a call may be recorded in a graph. All ranks
// launch the same calls with the same counts in the same order, on one stream. They need a GPU
// each: ranks that share one may wait for a kernel that does not run as long as they wait.
#ifndef FOLIO_KERNELS_CUDA_OPS_PEER_SUM_H_
#define FOLIO_KERNELS_CUDA_OPS_PEER_SUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/types.h"
#include "kernels/views.h"

namespace folio::kernels::cuda {

inline constexpr uint32_t kMaxPeers = 8;
// The most blocks of a call, each with turns of its own. 32 blocks of 256 threads read fast enough
// for the sizes that this is for, and leave most of the GPU free.
inline constexpr uint32_t kPeerSumBlocks = 32;

// The ranks share one such area of each rank, zero at first and mapped by all of them. The
// places of the parts follow it.
struct PeerFlags {
  uint32_t turn[kMaxPeers][kPeerSumBlocks];  // [from][block], the last one that it has written
};

// The places of two parts of `count` values, a multiple of 8, behind the flags.
constexpr size_t PeerAreaBytes(size_t count) {
  return sizeof(PeerFlags) + 2 * count * sizeof(bf16);
}

struct PeerGroup {
  uint32_t rank = 0;
  uint32_t ranks = 0;
  uint32_t most = 0;                 // values of a part; a multiple of 8
  PeerFlags* areas[kMaxPeers] = {};  // of each rank, as this rank has mapped it
  uint32_t* turns = nullptr;         // [kPeerSumBlocks] of this rank, zero at first
  // In memory of the host. Once it is not zero, calls end without waiting, and results are
  // undefined.
  const uint32_t* ended = nullptr;
};

// values[i], bf16 on this rank's GPU, becomes the sum of all ranks'. `count` is a multiple of 8 and
// at most `most`, and `values` begins at a multiple of 16 bytes.
absl::Status SumOverPeers(Stream stream, const PeerGroup& group, void* values, uint32_t count);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_OPS_PEER_SUM_H_
