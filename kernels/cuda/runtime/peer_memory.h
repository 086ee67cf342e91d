// PeerMemory is memory of another rank's GPU that this rank's kernels read and write. The other
// rank is a process, or a thread, of the same machine. This header includes no CUDA header.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_PEER_MEMORY_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_PEER_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/memory.h"

namespace folio::kernels::cuda {

// The description by which another rank maps a buffer. It is sent as bytes.
struct PeerHandle {
  uint64_t process = 0;  // a random number of the process
  uint64_t address = 0;  // within the process
  int32_t device = 0;    // CUDA's number within the process
  char gpu[16] = {};     // its UUID
  char ipc[64] = {};     // a cudaIpcMemHandle_t
};

// Memory that ranks map. If they are threads of a process, it lives until the last of them has
// ended its mapping, because a rank that fails must not wait for the others' kernels. CUDA keeps
// memory that other processes have mapped.
struct PeerBlock {
  DeviceMemory memory{0};  // charges are the caller's
  DeviceBuffer buffer;
};
// On the calling thread's device. RESOURCE_EXHAUSTED as DeviceMemory's.
absl::StatusOr<std::shared_ptr<PeerBlock>> AllocateForPeers(size_t bytes, absl::string_view what);

// The handle of a block on the calling thread's device. UNAVAILABLE with CUDA's words.
absl::StatusOr<PeerHandle> ExportMemory(const std::shared_ptr<PeerBlock>& block);

class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(PeerMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), kept_(std::move(other.kept_)) {}
  PeerMemory& operator=(PeerMemory&&) = delete;
  ~PeerMemory();

  // Maps the block for the calling thread's device. UNAVAILABLE says why it cannot be: the GPUs do
  // not reach each other, or it is one GPU.
  static absl::StatusOr<PeerMemory> Open(const PeerHandle& handle);

  void* data() const { return data_; }

 private:
  PeerMemory(void* data, std::shared_ptr<PeerBlock> kept) : data_(data), kept_(std::move(kept)) {}

  void* data_ = nullptr;
  std::shared_ptr<PeerBlock> kept_;  // null for memory of another process, which this unmaps
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_PEER_MEMORY_H_
