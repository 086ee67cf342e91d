#include "kernels/cuda/runtime/peer_memory.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <random>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

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

}  // namespace

absl::StatusOr<PeerHandle> ExportMemory(const DeviceBuffer& buffer) {
  auto handle = OfThisDevice();
  if (!handle.ok()) return handle;
  handle->address = reinterpret_cast<uintptr_t>(buffer.as<void>());
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
    return PeerMemory(data, /*mapped=*/true);
  }
  const cudaError_t error = cudaDeviceEnablePeerAccess(handle.device, 0);
  if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled) {
    return CannotMap("cudaDeviceEnablePeerAccess", error);
  }
  if (error != cudaSuccess) cudaGetLastError();
  return PeerMemory(std::bit_cast<void*>(handle.address), /*mapped=*/false);
}

PeerMemory::~PeerMemory() {
  if (mapped_) cudaIpcCloseMemHandle(data_);
}

}  // namespace folio::kernels::cuda
