// DeviceMemory hands out memory of a GPU within a budget. Each buffer frees its memory when it is
// destroyed. PinnedBuffer is page-locked memory of the host. This header includes no CUDA header.
//
// Freeing does not wait for the device, so the owner of a buffer keeps it until the device has
// finished with it. Not thread-safe.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_MEMORY_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_MEMORY_H_

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio::kernels::cuda {

class DeviceMemory;

// Uninitialised memory of the device, aligned to 256 bytes.
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

// Memory that CUDA itself took on the device. It counts against the budget as long as this lives.
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

// The budget of the current device's memory. It outlives its buffers and charges.
class DeviceMemory {
 public:
  // `budget` in bytes, or 0 for all that the device has.
  explicit DeviceMemory(size_t budget) : budget_(budget) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // RESOURCE_EXHAUSTED says that `what` did not fit, its size, how much of the budget is used and
  // how much the device has left.
  absl::StatusOr<DeviceBuffer> Allocate(size_t bytes, absl::string_view what);
  // Counts memory that is taken already. RESOURCE_EXHAUSTED if the budget does not allow it.
  absl::StatusOr<DeviceCharge> Charge(size_t bytes, absl::string_view what);
  // OK if this many more bytes would fit now.
  absl::Status CheckRoom(size_t bytes, absl::string_view what) const;

  size_t taken() const { return taken_; }

 private:
  friend class DeviceBuffer;
  friend class DeviceCharge;
  absl::Status CheckBudget(size_t bytes, absl::string_view what) const;

  size_t budget_;
  size_t taken_ = 0;
};

// Sets all bytes to zero, and waits for that. INTERNAL with CUDA's words.
absl::Status Zero(const DeviceBuffer& buffer);

// Page-locked memory of the host. Copies between it and the device run beside the host's work, and
// the device can also read and write it.
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

// Makes memory that something else mapped, such as the score board, reachable for the device as
// long as this lives. The mapping must outlive it.
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

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_MEMORY_H_
