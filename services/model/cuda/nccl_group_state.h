// This header defines the state of NcclGroup, for its own sources. It serializes the calls to NCCL,
// awaits that NCCL has taken them, and keeps why the group has ended.
#ifndef FOLIO_SERVICES_MODEL_CUDA_NCCL_GROUP_STATE_H_
#define FOLIO_SERVICES_MODEL_CUDA_NCCL_GROUP_STATE_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/base/steady_time.h"
#include "services/model/cuda/nccl_group.h"

// Symmetric memory came with NCCL 2.27.
#define FOLIO_NCCL_WINDOWS (NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0))

namespace folio::kernels::cuda {

#if FOLIO_NCCL_WINDOWS
using Window = ncclWindow_t;
inline constexpr size_t kWindowAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;
#else
using Window = void*;
inline constexpr size_t kWindowAlignment = 4096;
#endif

// A call is mostly taken at once, by a thread of NCCL's; a sleep is longer than that.
inline constexpr absl::Duration kWatchClosely = absl::Microseconds(200);
inline constexpr absl::Duration kPoll = absl::Microseconds(20);

struct Buffer {
  void* address = nullptr;
  Window window = nullptr;  // null where the machine has no symmetric memory
};

inline absl::Status Failed(absl::string_view call, ncclResult_t result, ncclComm_t comm) {
  const char* detail = ncclGetLastError(comm);
  return absl::UnavailableError(
      absl::StrCat("NCCL: ", call, ": ", ncclGetErrorString(result),
                   detail != nullptr && *detail != '\0' ? absl::StrCat(" (", detail, ")") : ""));
}

inline absl::Status Failed(absl::string_view call, cudaError_t error) {
  return absl::UnavailableError(absl::StrCat("CUDA: ", call, ": ", cudaGetErrorString(error)));
}

// `turn` is held by who talks to NCCL, and not for long once there is a `why`.
struct NcclGroup::State {
  ~State() {
    const absl::MutexLock lock(&turn);
    AwaitEnd();
  }

  Options options;
  absl::Mutex turn;
  ncclComm_t comm ABSL_GUARDED_BY(turn) = nullptr;
  bool joined ABSL_GUARDED_BY(turn) = false;
  // A deque, because NCCL's threads write a buffer's window after the call, so it must not move.
  std::deque<Buffer> memory ABSL_GUARDED_BY(turn);
  std::thread ending ABSL_GUARDED_BY(turn);  // at most one

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

  // NCCL stops its kernels at once. But the call does not return while a graph has recorded one of
  // the communicator's calls, and the thread that destroys the graphs may wait for `turn` before.
  // So a thread of its own makes it.
  void EndHere() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn) {
    if (comm == nullptr) return;
    ending = std::thread([of = std::exchange(comm, nullptr), device = options.device] {
      cudaSetDevice(device);
      ncclCommAbort(of);
    });
  }

  // Afterwards NCCL does not use the group's memory any more.
  void AwaitEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn) {
    EndHere();
    if (ending.joinable()) ending.join();
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

}  // namespace folio::kernels::cuda

#endif  // FOLIO_SERVICES_MODEL_CUDA_NCCL_GROUP_STATE_H_
