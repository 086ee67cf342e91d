// Stands for CUDA's memory of peers. Devices have one memory, so a thread of the process reaches
// that of every other one at once. Processes share what was allocated while `share_memory` was set:
// it lies in a file of its own, which another process opens through /proc.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/emulator/blocks.h"
#include "tests/emulator/runtime.h"

namespace folio::emulate {
namespace {

struct SharedBlock {
  int fd;
  size_t bytes;
};
// What a handle holds.
struct Exported {
  int process;
  SharedBlock block;
};
static_assert(sizeof(Exported) <= sizeof(cudaIpcMemHandle_t));

std::mutex shared_mutex;
std::map<void*, SharedBlock>& SharedBlocks() {
  static std::map<void*, SharedBlock> blocks;
  return blocks;
}

void* MapShared(int fd, size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : at;
}

// False if it is not such a block, which stays as it is.
bool Unmap(void* memory) {
  const std::lock_guard<std::mutex> lock(shared_mutex);
  const auto found = SharedBlocks().find(memory);
  if (found == SharedBlocks().end()) return false;
  munmap(memory, found->second.bytes);
  close(found->second.fd);
  SharedBlocks().erase(found);
  return true;
}

}  // namespace

void* NewBlock(size_t bytes) {
  // As aligned as CUDA's.
  if (!share_memory) return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  const int fd = memfd_create("folio-emulated-gpu", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* at = MapShared(fd, bytes);
  const std::lock_guard<std::mutex> lock(shared_mutex);
  if (at != nullptr) SharedBlocks()[at] = {fd, bytes};
  return at;
}

void FreeBlock(void* memory) {
  if (!Unmap(memory)) std::free(memory);
}

}  // namespace folio::emulate

namespace emulate = folio::emulate;

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return emulate::faults.peer_access; }

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  const std::lock_guard<std::mutex> lock(emulate::shared_mutex);
  const auto found = emulate::SharedBlocks().find(memory);
  if (found == emulate::SharedBlocks().end()) return cudaErrorInvalidValue;
  const emulate::Exported exported = {getpid(), found->second};
  *handle = {};
  std::memcpy(handle, &exported, sizeof(exported));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned flags) {
  if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  if (emulate::faults.peer_access != cudaSuccess) return emulate::faults.peer_access;
  emulate::Exported exported;
  std::memcpy(&exported, &handle, sizeof(exported));
  if (exported.process == 0 || exported.process == getpid()) return cudaErrorInvalidValue;
  const std::string name =
      "/proc/" + std::to_string(exported.process) + "/fd/" + std::to_string(exported.block.fd);
  const int fd = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return cudaErrorInvalidValue;
  *memory = emulate::MapShared(fd, exported.block.bytes);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  const std::lock_guard<std::mutex> lock(emulate::shared_mutex);
  emulate::SharedBlocks()[*memory] = {fd, exported.block.bytes};
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return emulate::Unmap(memory) ? cudaSuccess : cudaErrorInvalidValue;
}
