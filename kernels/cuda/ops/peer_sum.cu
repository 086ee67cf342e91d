// This kernel adds up parts of several GPUs.
#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/ops/peer_sum.h"

namespace folio::kernels::cuda {
namespace {

using device::Load;
using device::Pack;
using device::StoreAll;

constexpr uint32_t kPeerThreads = 256;
constexpr int kPackValues = 8;  // 16 bytes
// A block has the same packs in calls of any size. Its turns thus say when a place may be written.
constexpr uint32_t kStep = kPeerSumBlocks * kPeerThreads;

__device__ __forceinline__ bf16* PartOf(PeerFlags* area, uint32_t turn, uint32_t most) {
  return reinterpret_cast<bf16*>(area + 1) + size_t{turn & 1} * most;
}

// True if the peer has written its part of the turn, false if the group has ended. The peer may be
// a turn ahead, and never two.
__device__ bool AwaitPeer(const volatile uint32_t* at, uint32_t turn,
                          const volatile uint32_t* ended) {
  // A look at the host's memory takes a thousand times as long as one at our own.
  constexpr uint32_t kLooks = 256;
  for (uint32_t looks = 1; static_cast<int32_t>(*at - turn) < 0; ++looks) {
    if (looks % kLooks == 0 && *ended != 0) return false;
    __nanosleep(20);
  }
  return true;
}

__global__ void __launch_bounds__(kPeerThreads)
    SumOverPeersKernel(const __grid_constant__ PeerGroup group, bf16* values, uint32_t packs) {
  __shared__ uint32_t lost;
  const uint32_t turn = group.turns[blockIdx.x] + 1;
  const uint32_t first = blockIdx.x * kPeerThreads + threadIdx.x;
  if (threadIdx.x == 0) lost = 0;
  auto* mine =
      reinterpret_cast<Pack<bf16, kPackValues>*>(PartOf(group.areas[group.rank], turn, group.most));
  const auto* from = reinterpret_cast<const Pack<bf16, kPackValues>*>(values);
  for (uint32_t i = first; i < packs; i += kStep) mine[i] = from[i];
  // The block's part is visible to all GPUs before its flags are.
  __threadfence_system();
  __syncthreads();
  // All flags are raised before any is waited for, so that no ring of ranks waits for each other.
  const uint32_t peer = threadIdx.x;
  if (peer < group.ranks) {
    *static_cast<volatile uint32_t*>(&group.areas[peer]->turn[group.rank][blockIdx.x]) = turn;
  }
  __syncthreads();
  if (peer < group.ranks) {
    if (!AwaitPeer(&group.areas[group.rank]->turn[peer][blockIdx.x], turn, group.ended)) lost = 1;
    __threadfence_system();
  }
  __syncthreads();
  if (threadIdx.x == 0) group.turns[blockIdx.x] = turn;
  if (lost != 0) return;  // a peer's memory may be gone
  for (uint32_t i = first; i < packs; i += kStep) {
    float sums[kPackValues];
    Load(PartOf(group.areas[0], turn, group.most) + size_t{i} * kPackValues, sums);
    for (uint32_t rank = 1; rank < group.ranks; ++rank) {
      float more[kPackValues];
      Load(PartOf(group.areas[rank], turn, group.most) + size_t{i} * kPackValues, more);
#pragma unroll
      for (int j = 0; j < kPackValues; ++j) sums[j] = __fadd_rn(sums[j], more[j]);
    }
    StoreAll(sums, values + size_t{i} * kPackValues);
  }
}

}  // namespace

absl::Status SumOverPeers(Stream stream, const PeerGroup& group, void* values, uint32_t count) {
  if (group.ranks > kMaxPeers || group.rank >= group.ranks) {
    return device::Unserved("a sum is over at most 8 ranks");
  }
  if (count % kPackValues != 0 || count > group.most) {
    return device::Unserved(
        "a sum over ranks has a multiple of 8 values, and at most as many as a "
        "part has");
  }
  const uint32_t packs = count / kPackValues;
  const uint32_t blocks = std::min(device::Blocks(packs, kPeerThreads), kPeerSumBlocks);
  return device::Launch("SumOverPeers", stream, dim3(blocks), kPeerThreads, SumOverPeersKernel,
                        group, static_cast<bf16*>(values), packs);
}

}  // namespace folio::kernels::cuda
