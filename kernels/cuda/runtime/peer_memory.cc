#include "kernels/cuda/runtime/peer_memory.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace folio::kernels::cuda {
namespace {

// Processes in different containers may have the same id, and forked ones the same random number.
uint64_t ThisProcess() {
  static const uint64_t number = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return number ^ static_cast<uint64_t>(getpid());
}

// Clears the error, so that later work does not report it.
absl::Status CannotMap(absl::string_view call, cudaError_t error) {
  cudaGetLastError();
  return absl::UnavailableError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

absl::StatusOr<PeerHandle> OfThisDevice() {
  PeerHandle handle;
  handle.process = ThisProcess();
  int device = 0;
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return CannotMap("cudaGetDeviceProperties", error);
  handle.device = device;
  static_assert(sizeof(handle.gpu) == sizeof(properties.uuid.bytes));
  std::memcpy(handle.gpu, properties.uuid.bytes, sizeof(handle.gpu));
  return handle;
}

// The blocks of this process, by their addresses.
struct Exported {
  absl::Mutex mutex;
  std::map<uint64_t, std::weak_ptr<PeerBlock>> blocks ABSL_GUARDED_BY(mutex);
};
Exported& TheExported() {
  static auto* exported = new Exported;
  return *exported;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PeerBlock>> AllocateForPeers(size_t bytes, absl::string_view what) {
  auto block = std::make_shared<PeerBlock>();
  auto buffer = block->memory.Allocate(bytes, what);
  if (!buffer.ok()) return buffer.status();
  block->buffer = *std::move(buffer);
  return block;
}

absl::StatusOr<PeerHandle> ExportMemory(const std::shared_ptr<PeerBlock>& block) {
  const DeviceBuffer& buffer = block->buffer;
  auto handle = OfThisDevice();
  if (!handle.ok()) return handle;
  handle->address = reinterpret_cast<uintptr_t>(buffer.as<void>());
  {
    Exported& exported = TheExported();
    const absl::MutexLock lock(&exported.mutex);
    std::erase_if(exported.blocks, [](const auto& one) { return one.second.expired(); });
    exported.blocks[handle->address] = block;
  }
  cudaIpcMemHandle_t ipc;
  // Threads of this process do not need it.
  if (cudaIpcGetMemHandle(&ipc, buffer.as<void>()) == cudaSuccess) {
    static_assert(sizeof(handle->ipc) == sizeof(ipc));
    std::memcpy(handle->ipc, &ipc, sizeof(ipc));
  } else {
    cudaGetLastError();
  }
  return handle;
}

absl::StatusOr<PeerMemory> PeerMemory::Open(const PeerHandle& handle) {
  const auto own = OfThisDevice();
  if (!own.ok()) return own.status();
  if (std::memcmp(own->gpu, handle.gpu, sizeof(handle.gpu)) == 0) {
    return absl::UnavailableError("ranks share a GPU");
  }
  if (handle.process != own->process) {
    cudaIpcMemHandle_t ipc;
    std::memcpy(&ipc, handle.ipc, sizeof(ipc));
    void* data = nullptr;
    const cudaError_t error = cudaIpcOpenMemHandle(&data, ipc, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess) return CannotMap("cudaIpcOpenMemHandle", error);
    return PeerMemory(data, nullptr);
  }
  const cudaError_t error = cudaDeviceEnablePeerAccess(handle.device, 0);
  if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled) {
    return CannotMap("cudaDeviceEnablePeerAccess", error);
  }
  if (error != cudaSuccess) cudaGetLastError();
  Exported& exported = TheExported();
  const absl::MutexLock lock(&exported.mutex);
  const auto block = exported.blocks.find(handle.address);
  auto kept = block == exported.blocks.end() ? nullptr : block->second.lock();
  if (kept == nullptr) return absl::UnavailableError("the rank has ended");
  void* data = kept->buffer.as<void>();
  return PeerMemory(data, std::move(kept));
}

PeerMemory::~PeerMemory() {
  if (data_ != nullptr && kept_ == nullptr) cudaIpcCloseMemHandle(data_);
}

}  // namespace folio::kernels::cuda
