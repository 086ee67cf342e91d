#include "services/model/cuda/nccl_group.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/base/steady_time.h"

// Symmetric memory came with NCCL 2.27.
#define FOLIO_NCCL_WINDOWS (NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0))

namespace folio::kernels::cuda {
namespace {

#if FOLIO_NCCL_WINDOWS
using Window = ncclWindow_t;
constexpr size_t kWindowAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;
#else
using Window = void*;
constexpr size_t kWindowAlignment = 4096;
#endif

// A call is mostly taken at once, by a thread of NCCL's; a sleep is longer than that.
constexpr absl::Duration kWatchClosely = absl::Microseconds(200);
constexpr absl::Duration kPoll = absl::Microseconds(20);

struct Buffer {
  void* address = nullptr;
  Window window = nullptr;  // null where the machine has no symmetric memory
};

absl::Status Failed(absl::string_view call, ncclResult_t result, ncclComm_t comm) {
  const char* detail = ncclGetLastError(comm);
  return absl::UnavailableError(
      absl::StrCat("NCCL: ", call, ": ", ncclGetErrorString(result),
                   detail != nullptr && *detail != '\0' ? absl::StrCat(" (", detail, ")") : ""));
}

absl::Status Failed(absl::string_view call, cudaError_t error) {
  return absl::UnavailableError(absl::StrCat("CUDA: ", call, ": ", cudaGetErrorString(error)));
}

ncclDataType_t TypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kBf16:
      return ncclBfloat16;
    case DataType::kFp16:
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

// `turn` is held by who talks to NCCL, and not for long once there is a `why`.
struct NcclGroup::State {
  Options options;
  absl::Mutex turn;
  ncclComm_t comm ABSL_GUARDED_BY(turn) = nullptr;
  bool joined ABSL_GUARDED_BY(turn) = false;
  // A deque, because NCCL's threads write a buffer's window after the call, so it must not move.
  std::deque<Buffer> memory ABSL_GUARDED_BY(turn);

  absl::Mutex end;
  absl::Status why ABSL_GUARDED_BY(end);
  std::atomic<bool> ended{false};

  absl::Status reason() {
    const absl::MutexLock lock(&end);
    return why;
  }

  void SetReason(const absl::Status& status) {
    const absl::MutexLock lock(&end);
    if (!why.ok()) return;
    why = status;
    ended.store(true);
  }

  absl::Status Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn) {
    SetReason(status);
    EndHere();
    return reason();
  }

  void EndHere() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn) {
    if (comm != nullptr) ncclCommAbort(comm);
    comm = nullptr;
  }

  absl::Status Ready() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn) {
    if (!ended.load()) return absl::OkStatus();
    EndHere();
    return reason();
  }

  // Until NCCL has taken what `call` gave it. Even after a success NCCL's threads may still work on
  // it, as after ncclCommWindowRegister of NCCL 2.32, and then NCCL refuses the next call. Only the
  // communicator's state tells.
  absl::Status Settle(absl::string_view call, ncclResult_t result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn) {
    const SteadyTime start = SteadyNow();
    if (result == ncclSuccess) result = ncclInProgress;
    while (result == ncclInProgress) {
      if (ended.load()) return Ready();
      if (absl::Status told = joined || !options.check ? absl::OkStatus() : options.check();
          !told.ok()) {
        return Fail(told);
      }
      const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
      if (asked != ncclSuccess) return Fail(Failed(call, asked, comm));
      if (result != ncclInProgress) break;
      const absl::Duration waited = SteadyNow() - start;
      if (waited > options.timeout) {
        return Fail(absl::DeadlineExceededError(
            absl::StrCat("NCCL: ", call, ": not all ", options.ranks, " ranks came within ",
                         absl::FormatDuration(options.timeout))));
      }
      if (waited < kWatchClosely) {
        std::this_thread::yield();
      } else {
        absl::SleepFor(kPoll);
      }
    }
    return result == ncclSuccess ? absl::OkStatus() : Fail(Failed(call, result, comm));
  }
};

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
  state_->EndHere();
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
