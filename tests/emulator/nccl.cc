// A stand-in for NCCL. Ranks are threads or processes of one machine, and exchange through shared
// memory that the group's id names. A call is enqueued like any other work of its stream. When the
// stream runs, it waits for its peers, without a limit unless the communicator is aborted.
//
// As in a communicator of NCCL 2.32 that does not block, every call is in progress for a while
// after it has returned, even if it returned success. Until the communicator's state has been
// success, further calls are refused. A window is written some milliseconds after the call that
// asks for it.
//
// Calls may be recorded in a graph. A call that one rank has recorded and another has not, or that
// is another one of its graph, ends the group with an error where NCCL would hang. An abort stops
// what runs, and returns once no graph holds a recorded call any more.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>

#include "kernels/views.h"
#include "tests/emulator/nccl_exchange.h"
#include "tests/emulator/runtime.h"
#include "tests/emulator/streams.h"

namespace {

using folio::emulate::NcclExchange;
using folio::emulate::NcclShared;
using folio::kernels::bf16;

size_t BytesOf(ncclDataType_t type) {
  if (type == ncclInt8) return 1;
  return type == ncclFloat32 ? 4 : 2;
}

constexpr int kLooks = 3;  // at the state, until it is success
constexpr auto kRegistering = std::chrono::milliseconds(20);

thread_local bool bracket = false;
thread_local ncclResult_t in_bracket = ncclSuccess;
thread_local ncclComm_t of_bracket = nullptr;
thread_local const char* last_error = "";

}  // namespace

struct ncclComm {
  std::shared_ptr<NcclExchange> group = std::make_shared<NcclExchange>();
  ncclUniqueId id = {};
  int looks = 0;  // that still find the last call in progress
  uint32_t calls = 0;
  std::atomic<bool> registering{false};
  std::shared_ptr<const int> held = std::make_shared<int>();  // by recorded calls too
  std::thread late;                                           // writes what a call gives back

  ~ncclComm() {
    if (late.joinable()) late.join();
  }
  ncclResult_t state() const {
    if (group->shared->misused.load()) return ncclInvalidUsage;
    const bool all_here = group->shared->joined.load() >= group->ranks;
    return looks == 0 && all_here && !registering.load() ? ncclSuccess : ncclInProgress;
  }
  // Callers can rely on neither result, so the calls take turns.
  ncclResult_t Begun() {
    looks = kLooks;
    return calls++ % 2 == 0 ? ncclSuccess : ncclInProgress;
  }
  ncclResult_t Refuse(ncclResult_t why) const {
    if (bracket && in_bracket == ncclSuccess) in_bracket = why;
    return why;
  }
  // What it returns unless success is the refusal.
  ncclResult_t EnsureReady() const {
    if (state() == ncclSuccess) return ncclSuccess;
    last_error = "Attempt to use communicator before the previous operation returned ncclSuccess";
    return Refuse(ncclInvalidArgument);
  }
  template <typename Work>
  ncclResult_t Take(cudaStream_t stream, Work work) {
    if (const ncclResult_t ready = EnsureReady(); ready != ncclSuccess) return ready;
    if (folio::emulate::Recorded(stream)) {
      // A bracket may have more calls on one rank than on another.
      uint64_t& number = stream->recorded->collectives;
      if (!bracket || of_bracket == nullptr) ++number;
      folio::emulate::Enqueue(stream, [of = group, work, number, held = held] {
        of->recorded = number;
        work(*of);
        of->recorded = 0;
      });
    } else {
      folio::emulate::Enqueue(stream, [of = group, work] { work(*of); });
    }
    if (!bracket) return Begun();
    of_bracket = this;
    return ncclSuccess;
  }
};

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  if (result == ncclInvalidArgument) return "invalid argument";
  return result == ncclInvalidUsage ? "invalid usage" : "unhandled system error";
}
const char* ncclGetLastError(ncclComm_t) { return last_error; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{0};
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "/folio-nccl-%d-%d", static_cast<int>(getpid()),
                next.fetch_add(1));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks > folio::emulate::kNcclMaxRanks || config->blocking != 0) return ncclInvalidArgument;
  const int fd = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(NcclShared)) != 0) return ncclSystemError;
  void* at = mmap(nullptr, sizeof(NcclShared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return ncclSystemError;
  *comm = new ncclComm;
  (*comm)->id = id;
  NcclExchange& group = *(*comm)->group;
  group.shared = static_cast<NcclShared*>(at);
  group.rank = rank;
  group.ranks = ranks;
  // All ranks have joined, so the name is not needed any more.
  if (group.shared->joined.fetch_add(1) + 1 == ranks) shm_unlink(id.internal);
  return (*comm)->Begun();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = comm->state();
  if (comm->looks > 0) --comm->looks;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::unique_ptr<ncclComm> held(comm);
  const NcclExchange& group = *comm->group;
  comm->group->aborted.store(true);
  if (group.shared->joined.load() < group.ranks) shm_unlink(comm->id.internal);
  while (comm->held.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}

struct ncclWindow {};
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  const bool aligned = bytes % NCCL_WIN_REQUIRED_ALIGNMENT == 0;
  if (memory == nullptr || !aligned || flags != NCCL_WIN_COLL_SYMMETRIC) return ncclInvalidUsage;
  if (const ncclResult_t ready = comm->EnsureReady(); ready != ncclSuccess) return ready;
  *window = nullptr;
  if (comm->late.joinable()) comm->late.join();
  comm->registering.store(true);
  comm->late = std::thread([comm, window] {
    std::this_thread::sleep_for(kRegistering);
    static ncclWindow same;  // nothing is in it, and an aborted group takes none back
    *window = &same;
    comm->registering.store(false);
  });
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (window == nullptr) return ncclInvalidArgument;
  const ncclResult_t ready = comm->EnsureReady();
  return ready == ncclSuccess ? comm->Begun() : ready;
}

ncclResult_t ncclGroupStart() {
  bracket = true;
  in_bracket = ncclSuccess;
  of_bracket = nullptr;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  bracket = false;
  if (in_bracket != ncclSuccess || of_bracket == nullptr) return in_bracket;
  return of_bracket->Begun();
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (op != ncclSum || (type != ncclFloat32 && type != ncclBfloat16)) {
    return comm->Refuse(ncclInvalidUsage);
  }
  return comm->Take(stream, [=](const NcclExchange& group) {
    if (type == ncclFloat32) return group.Sum<float>(from, to, count);
    group.Sum<bf16>(from, to, count);
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (root < 0 || root >= comm->group->ranks) return comm->Refuse(ncclInvalidArgument);
  const size_t bytes = count * BytesOf(type);
  return comm->Take(stream,
                    [=](const NcclExchange& group) { group.Broadcast(root, from, to, bytes); });
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (peer < 0 || peer >= comm->group->ranks) return comm->Refuse(ncclInvalidArgument);
  const size_t bytes = count * BytesOf(type);
  return comm->Take(stream, [=](const NcclExchange& group) { group.Send(peer, from, bytes); });
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (peer < 0 || peer >= comm->group->ranks) return comm->Refuse(ncclInvalidArgument);
  const size_t bytes = count * BytesOf(type);
  return comm->Take(stream, [=](const NcclExchange& group) { group.Receive(peer, to, bytes); });
}
