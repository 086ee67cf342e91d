// Uploads gathers the host's arrays for the device in page-locked memory and sends them in one
// copy.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_UPLOADS_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_UPLOADS_H_

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/types.h"

namespace folio::kernels::cuda {

// It grows as needed and keeps its memory. If memory runs out, the array is lost and Flush returns
// the error. Not thread-safe.
//
// With a place of its own on the device it does not grow. Arrays of the same sizes in the same
// order then lie at the same addresses each time, as graphs that recorded these addresses need.
class Uploads {
 public:
  // An array on the host, to be filled before Flush, and where it will be on the device.
  template <typename T>
  struct Room {
    T* host = nullptr;
    const T* device = nullptr;
  };

  explicit Uploads(DeviceMemory& memory) : memory_(memory) {}
  // The caller owns `place`, which is large enough for all arrays. Several Uploads may share it if
  // one stream orders their copies.
  Uploads(DeviceMemory& memory, const DeviceBuffer& place) : memory_(memory), place_(&place) {}
  // Bytes of a place that arrays of these sizes need.
  static size_t BytesOf(std::initializer_list<size_t> arrays) {
    size_t sum = 0;
    for (const size_t bytes : arrays) sum += Aligned(bytes);
    return sum;
  }

  template <typename T>
  Room<T> Reserve(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    const Room<std::byte> room = ReserveBytes(count * sizeof(T));
    return {reinterpret_cast<T*>(room.host), reinterpret_cast<const T*>(room.device)};
  }
  template <typename T>
  DeviceArray<T> Put(absl::Span<const T> values) {
    const Room<T> room = Reserve<T>(values.size());
    std::copy(values.begin(), values.end(), room.host);
    return {room.device, static_cast<uint32_t>(values.size())};
  }

  // Enqueues the copy of all arrays since the last Flush. RESOURCE_EXHAUSTED if memory ran out for
  // one of them.
  absl::Status Flush(Stream stream);
  // Forgets all arrays. Precondition: no stream still copies or reads them.
  void Clear();

 private:
  static constexpr size_t kAlignment = 16;
  static constexpr size_t kFirstBytes = size_t{1} << 20;

  struct Chunk {
    PinnedBuffer host;
    DeviceBuffer own;  // empty if there is a place
    std::byte* device = nullptr;
    size_t used = 0, flushed = 0;
  };

  static constexpr size_t Aligned(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  Room<std::byte> ReserveBytes(size_t bytes);
  absl::Status Grow(size_t bytes);

  DeviceMemory& memory_;
  const DeviceBuffer* place_ = nullptr;
  std::vector<Chunk> chunks_;
  absl::Status status_;
  std::vector<std::unique_ptr<std::byte[]>> lost_;  // arrays for which memory ran out
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_UPLOADS_H_
