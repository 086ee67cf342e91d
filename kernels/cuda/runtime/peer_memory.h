// PeerMemory is memory of another rank's GPU that this rank's kernels read and write. The other
// rank is a process, or a thread, of the same machine. This header includes no CUDA header.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_PEER_MEMORY_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_PEER_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
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

// The handle of a buffer on the calling thread's device. UNAVAILABLE with CUDA's words.
absl::StatusOr<PeerHandle> ExportMemory(const DeviceBuffer& buffer);

class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(PeerMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), mapped_(std::exchange(other.mapped_, false)) {}
  PeerMemory& operator=(PeerMemory&&) = delete;
  ~PeerMemory();

  // Maps the buffer for the calling thread's device. The buffer outlives the mapping, or its
  // process ends. UNAVAILABLE says why it cannot be: the GPUs do not reach each other, or it is one
  // GPU.
  static absl::StatusOr<PeerMemory> Open(const PeerHandle& handle);

  void* data() const { return data_; }

 private:
  PeerMemory(void* data, bool mapped) : data_(data), mapped_(mapped) {}

  void* data_ = nullptr;
  bool mapped_ = false;  // by this
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_PEER_MEMORY_H_
