// Memory of a GPU and of the host beside it: who holds it frees it, and a budget bounds what is
// taken of the GPU's. No CUDA header is needed to include this.
//
// Freeing does not wait for the device: whoever holds memory keeps it until what uses it is done.
// Not thread-safe.
#ifndef FOLIO_KERNELS_CUDA_MEMORY_H_
#define FOLIO_KERNELS_CUDA_MEMORY_H_

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio::kernels::cuda {

class DeviceMemory;

// Some of the device's memory, aligned to 256 bytes; what is in it at first is undefined.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  template <typename T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  friend class DeviceMemory;
  DeviceMemory* owner_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Memory that CUDA took of the device by itself, counted like the rest as long as this lives.
class DeviceCharge {
 public:
  DeviceCharge() = default;
  DeviceCharge(DeviceCharge&& other) noexcept
      : owner_(other.owner_), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceCharge& operator=(DeviceCharge&&) = delete;
  ~DeviceCharge();

  size_t bytes() const { return bytes_; }

 private:
  friend class DeviceMemory;
  DeviceMemory* owner_ = nullptr;
  size_t bytes_ = 0;
};

// What may be taken of the current device's memory. Outlives its buffers and charges.
class DeviceMemory {
 public:
  // `budget` in bytes; 0: whatever the device has.
  explicit DeviceMemory(size_t budget) : budget_(budget) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // RESOURCE_EXHAUSTED says that `what` did not fit, how much it wanted, how much of the budget is
  // taken and how much the device has left.
  absl::StatusOr<DeviceBuffer> Allocate(size_t bytes, absl::string_view what);
  // Counts what is taken already. RESOURCE_EXHAUSTED: the budget does not allow it.
  absl::StatusOr<DeviceCharge> Charge(size_t bytes, absl::string_view what);
  // OK if so much more would fit now.
  absl::Status CheckRoom(size_t bytes, absl::string_view what) const;

  size_t taken() const { return taken_; }

 private:
  friend class DeviceBuffer;
  friend class DeviceCharge;
  absl::Status CheckBudget(size_t bytes, absl::string_view what) const;

  size_t budget_;
  size_t taken_ = 0;
};

// Page-locked memory of the host, which copies to and from the device need to run beside the host,
// and which the device can also reach itself.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  // RESOURCE_EXHAUSTED names `what`.
  static absl::StatusOr<PinnedBuffer> Allocate(size_t bytes, absl::string_view what);

  template <typename T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  // The device's address of it.
  template <typename T = std::byte>
  T* on_device() const {
    return static_cast<T*>(device_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  void* device_ = nullptr;
  size_t bytes_ = 0;
};

// Memory that something else mapped, such as the score board, made reachable for the device for as
// long as this lives. The mapping outlives it.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(RegisteredMemory&& other) noexcept { *this = std::move(other); }
  RegisteredMemory& operator=(RegisteredMemory&& other) noexcept;
  ~RegisteredMemory();

  // `data` begins at a multiple of the host's page. The error names `what` and its bytes.
  static absl::StatusOr<RegisteredMemory> Register(void* data, size_t bytes,
                                                   absl::string_view what);

  void* on_device() const { return device_; }

 private:
  void* data_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_MEMORY_H_
