#include "services/model/cuda/peer_sums.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/base/check.h"
#include "services/model/cuda/rank_vote.h"
#include "services/runtime/logging.h"

namespace folio::model {

namespace cuda = kernels::cuda;

absl::StatusOr<cuda::PeerHandle> PeerSums::Allocate(cuda::DeviceMemory& memory) {
  constexpr size_t kValues = kMaxBytes / sizeof(kernels::bf16);
  constexpr size_t kBytes = cuda::PeerAreaBytes(kValues);
  constexpr char kWhat[] = "short sums of ranks";
  auto area = cuda::AllocateForPeers(kBytes, kWhat);
  if (!area.ok()) return area.status();
  area_ = *std::move(area);
  auto charge = memory.Charge(kBytes, kWhat);
  if (!charge.ok()) return charge.status();
  charge_.emplace(*std::move(charge));
  auto turns = memory.Allocate(cuda::kPeerSumBlocks * sizeof(uint32_t), "turns of ranks' sums");
  if (!turns.ok()) return turns.status();
  turns_ = *std::move(turns);
  auto ended = cuda::PinnedBuffer::Allocate(sizeof(uint32_t), "the end of ranks' sums");
  if (!ended.ok()) return ended.status();
  ended_ = *std::move(ended);
  *ended_.as<uint32_t>() = 0;
  group_.most = kValues;
  group_.turns = turns_.as<uint32_t>();
  group_.ended = ended_.on_device<const uint32_t>();
  auto zeroed = cuda::Zero(area_->buffer);
  zeroed.Update(cuda::Zero(turns_));
  return zeroed.ok() ? cuda::ExportMemory(area_) : zeroed;
}

absl::Status PeerSums::Map(const std::vector<cuda::PeerHandle>& handles, uint32_t own) {
  if (handles.size() > cuda::kMaxPeers) {
    return absl::UnavailableError(absl::StrCat("there are more than ", cuda::kMaxPeers, " ranks"));
  }
  group_.rank = own;
  group_.ranks = static_cast<uint32_t>(handles.size());
  for (uint32_t rank = 0; rank < handles.size(); ++rank) {
    if (rank == own) {
      group_.areas[rank] = area_->buffer.as<cuda::PeerFlags>();
      continue;
    }
    auto peer = cuda::PeerMemory::Open(handles[rank]);
    if (!peer.ok()) {
      return absl::UnavailableError(
          absl::StrCat("it cannot reach rank ", rank, ": ", peer.status().message()));
    }
    group_.areas[rank] = static_cast<cuda::PeerFlags*>(peer->data());
    peers_.push_back(*std::move(peer));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerSums>> PeerSums::Make(collective::Collective& host,
                                                         cuda::DeviceMemory& memory,
                                                         SteadyTime deadline) {
  std::unique_ptr<PeerSums> sums(new PeerSums());
  const auto handle = sums->Allocate(memory);
  absl::Status own = handle.status();
  // A rank without memory takes part too, and objects.
  const cuda::PeerHandle mine = handle.ok() ? *handle : cuda::PeerHandle();
  std::vector<cuda::PeerHandle> handles(host.size());
  const std::vector<size_t> sizes(host.size(), sizeof(mine));
  absl::Status gathered = host.AllGather(
      {reinterpret_cast<const std::byte*>(&mine), sizeof(mine)}, sizes,
      {reinterpret_cast<std::byte*>(handles.data()), handles.size() * sizeof(mine)}, deadline);
  if (!gathered.ok()) return gathered;
  if (own.ok()) own = sums->Map(handles, host.rank().value());
  const auto objection =
      Vote(host, sizeof(mine), own.ok() ? "" : std::string(own.message()), deadline);
  if (!objection.ok()) return objection.status();
  if (objection->empty()) return sums;
  log::Info("all sums of ranks go through NCCL", {{"reason", *objection}});
  return nullptr;
}

absl::Status PeerSums::AllReduce(cuda::Stream stream, void* values, size_t count) const {
  FOLIO_CHECK(count * sizeof(kernels::bf16) <= kMaxBytes);
  return cuda::SumOverPeers(stream, group_, values, static_cast<uint32_t>(count));
}

void PeerSums::Abort() { *static_cast<volatile uint32_t*>(ended_.as<uint32_t>()) = 1; }

}  // namespace folio::model
