#include "services/model/cuda/nccl_group.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "services/model/cuda/nccl_group_state.h"

namespace folio::kernels::cuda {
namespace {

ncclDataType_t TypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kBf16:
      return ncclBfloat16;
    case DataType::kFp16:
    case DataType::kE4M3:  // never exchanged
      break;
  }
  return ncclFloat16;
}

absl::Status CheckOptions(const NcclGroup::Options& options) {
  if (options.id.size() != sizeof(ncclUniqueId)) {
    return absl::InvalidArgumentError(absl::StrCat("id: ", options.id.size(), " bytes are not ",
                                                   sizeof(ncclUniqueId), ", as MakeId makes them"));
  }
  if (options.rank.value() >= options.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank: ", options.rank.value(), " is not below ranks = ", options.ranks));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> NcclGroup::MakeId() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return Failed("ncclGetUniqueId", result, nullptr);
  return std::string(id.internal, sizeof(id.internal));
}

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroup::Join(const Options& options) {
  if (auto status = CheckOptions(options); !status.ok()) return status;
  if (const cudaError_t error = cudaSetDevice(options.device); error != cudaSuccess) {
    return Failed(absl::StrCat("device ", options.device), error);
  }
  ncclUniqueId id;
  std::memcpy(id.internal, options.id.data(), sizeof(id.internal));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;

  auto state = std::make_unique<State>();
  state->options = options;
  {
    const absl::MutexLock turn(&state->turn);
    const ncclResult_t result =
        ncclCommInitRankConfig(&state->comm, static_cast<int>(options.ranks), id,
                               static_cast<int>(options.rank.value()), &config);
    if (auto status = state->Settle("ncclCommInitRankConfig", result); !status.ok()) return status;
    state->joined = true;
  }
  return std::unique_ptr<NcclGroup>(new NcclGroup(std::move(state)));
}

NcclGroup::NcclGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}

NcclGroup::~NcclGroup() {
  const absl::MutexLock turn(&state_->turn);
#if FOLIO_NCCL_WINDOWS
  for (const Buffer& buffer : state_->memory) {
    if (buffer.window == nullptr || state_->comm == nullptr || !state_->Ready().ok()) continue;
    state_
        ->Settle("ncclCommWindowDeregister", ncclCommWindowDeregister(state_->comm, buffer.window))
        .IgnoreError();
  }
#endif
  state_->AwaitEnd();
  for (const Buffer& buffer : state_->memory) ncclMemFree(buffer.address);
}

absl::StatusOr<void*> NcclGroup::Allocate(size_t bytes) {
  const absl::MutexLock turn(&state_->turn);
  if (auto status = state_->Ready(); !status.ok()) return status;
  void* address = nullptr;
  // The windows' alignment, so that sizes are the same numbers on all ranks.
  bytes = (bytes + kWindowAlignment - 1) / kWindowAlignment * kWindowAlignment;
  if (const ncclResult_t result = ncclMemAlloc(&address, bytes); result != ncclSuccess) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "GPU memory: no ", bytes, " bytes for what ranks add up: ", ncclGetErrorString(result)));
  }
  state_->memory.push_back({address});
#if FOLIO_NCCL_WINDOWS
  const ncclResult_t result = ncclCommWindowRegister(
      state_->comm, address, bytes, &state_->memory.back().window, NCCL_WIN_COLL_SYMMETRIC);
  if (auto status = state_->Settle("ncclCommWindowRegister", result); !status.ok()) return status;
#endif
  return address;
}

absl::Status NcclGroup::AllReduce(void* values, size_t count, DataType type, Stream stream) {
  const absl::MutexLock turn(&state_->turn);
  if (auto status = state_->Ready(); !status.ok()) return status;
  return state_->Settle("ncclAllReduce", ncclAllReduce(values, values, count, TypeOf(type), ncclSum,
                                                       state_->comm, stream));
}

absl::Status NcclGroup::Gather(const void* mine, absl::Span<const size_t> sizes, void* all,
                               bool everyone, Stream stream) {
  const absl::MutexLock turn(&state_->turn);
  if (auto status = state_->Ready(); !status.ok()) return status;
  const uint32_t own = state_->options.rank.value();
  if (sizes.size() != state_->options.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes: ", sizes.size(), " numbers for ", state_->options.ranks, " ranks"));
  }
  ncclComm_t comm = state_->comm;
  if (const ncclResult_t result = ncclGroupStart(); result != ncclSuccess) {
    return state_->Fail(Failed("ncclGroupStart", result, comm));
  }
  // A call inside the bracket that fails makes its end fail, and NCCL works on none before it.
  size_t offset = 0;
  for (uint32_t rank = 0; rank < sizes.size(); offset += sizes[rank++]) {
    char* place = static_cast<char*>(all) + offset;
    const int root = static_cast<int>(rank);
    if (everyone) {
      ncclBroadcast(mine, place, sizes[rank], ncclInt8, root, comm, stream);
    } else if (own == 0 && rank > 0) {
      ncclRecv(place, sizes[rank], ncclInt8, root, comm, stream);
    } else if (own == rank && rank > 0) {
      ncclSend(mine, sizes[rank], ncclInt8, 0, comm, stream);
    }
  }
  if (auto status = state_->Settle("ncclGroupEnd", ncclGroupEnd()); !status.ok()) return status;
  if (everyone || own != 0 || mine == all) return absl::OkStatus();
  const cudaError_t error = cudaMemcpyAsync(all, mine, sizes[0], cudaMemcpyDeviceToDevice, stream);
  return error == cudaSuccess ? absl::OkStatus() : state_->Fail(Failed("cudaMemcpyAsync", error));
}

absl::Status NcclGroup::Broadcast(void* bytes, size_t size, Stream stream) {
  const absl::MutexLock turn(&state_->turn);
  if (auto status = state_->Ready(); !status.ok()) return status;
  return state_->Settle("ncclBroadcast",
                        ncclBroadcast(bytes, bytes, size, ncclInt8, 0, state_->comm, stream));
}

absl::Status NcclGroup::Health() {
  // A thread that is inside a call checks by itself. It may be ending the group just now, and then
  // streams stop before this lock is free.
  if (!state_->turn.TryLock()) {
    return state_->ended.load() ? state_->reason() : absl::OkStatus();
  }
  absl::Status status = state_->Ready();
  if (status.ok()) {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(state_->comm, &result);
    if (asked == ncclSuccess) {
      if (result != ncclSuccess && result != ncclInProgress) {
        status = state_->Fail(Failed("in the background", result, state_->comm));
      }
    } else {
      status = state_->Fail(Failed("ncclCommGetAsyncError", asked, state_->comm));
    }
  }
  state_->turn.Unlock();
  return status;
}

void NcclGroup::Abort(const absl::Status& why) {
  state_->SetReason(why.ok() ? absl::CancelledError("the group was ended") : why);
  // A thread that is inside a call leaves it now. If it has checked for a reason just before, it
  // leaves without ending the group, so this thread must end it.
  const absl::MutexLock turn(&state_->turn);
  state_->EndHere();
}

}  // namespace folio::kernels::cuda
