// ImportedPool is page memory of another process, mapped on a device of this process. The other
// process made it with the driver's virtual-memory API (cuMemCreate) and passed it as a file
// descriptor. The memory lives until the last process that has it releases it. This header includes
// no CUDA header.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_IMPORTED_POOL_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_IMPORTED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace folio::kernels::cuda {

struct DriverCalls;  // kernels/cuda/runtime/driver.h

// Destroying it unmaps the memory, which the device must no longer use by then.
class ImportedPool {
 public:
  // Maps the first `bytes` for reading and writing by GPU `device`, which is the calling thread's.
  // The caller keeps `fd` and may close it afterwards. FAILED_PRECONDITION if there is no driver,
  // or if the descriptor is not such memory or has fewer bytes. INTERNAL carries the driver's
  // words.
  static absl::StatusOr<ImportedPool> Import(int fd, size_t bytes, int device);
  // The same by another driver, for tests; it outlives the pool.
  static absl::StatusOr<ImportedPool> Import(const DriverCalls& driver, int fd, size_t bytes,
                                             int device);

  ImportedPool(ImportedPool&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        address_(std::exchange(other.address_, 0)),
        bytes_(std::exchange(other.bytes_, 0)),
        mapped_(std::exchange(other.mapped_, false)) {}
  ImportedPool& operator=(ImportedPool&&) = delete;
  ~ImportedPool();

  // The device's address.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's addresses are numbers.
  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }

 private:
  explicit ImportedPool(const DriverCalls& driver) : driver_(&driver) {}

  const DriverCalls* driver_;
  uintptr_t address_ = 0;  // 0: nothing is reserved
  size_t bytes_ = 0;       // reserved: a multiple of the device's granularity
  bool mapped_ = false;
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_IMPORTED_POOL_H_
