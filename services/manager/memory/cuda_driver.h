// CudaDriver is the CUDA driver, loaded at run time. It lists devices and allocates memory on them
// that other processes can map.
//
// It creates no context and maps nothing. A context would cost the manager some hundred MiB of each
// GPU, and a fault in a worker's kernels could reach a process that shares the GPU's address space.
// Without one the manager survives every worker, which failover depends on. Errors are shown in the
// driver's own words.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_CUDA_DRIVER_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/unique_fd.h"
#include "services/manager/memory/cuda_abi.h"

namespace folio::manager {

struct CudaDevice {
  int ordinal = 0;  // as CUDA numbers the GPUs that this process sees
  std::string name;
  std::string uuid;          // "GPU-..."
  uint64_t total_bytes = 0;  // as the driver counts them
  size_t granularity = 0;    // allocations are multiples of it, in bytes
};

class CudaAllocation;

// Thread-safe.
class CudaDriver : public std::enable_shared_from_this<CudaDriver> {
 public:
  // NOT_FOUND if there is no such library, FAILED_PRECONDITION if it lacks a function or does not
  // start. `no_device` is set if it started and sees no GPU.
  static absl::StatusOr<std::shared_ptr<const CudaDriver>> Load(const std::string& library,
                                                                bool* no_device);
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  // NOT_FOUND if no GPU has this number, FAILED_PRECONDITION if it cannot share its memory with
  // other processes.
  absl::StatusOr<CudaDevice> Device(int ordinal) const;
  // Precondition: `bytes` is a multiple of the granularity. RESOURCE_EXHAUSTED if the device has
  // too little memory.
  absl::StatusOr<CudaAllocation> Allocate(const CudaDevice& device, size_t bytes) const;

 private:
  friend class CudaAllocation;
  CudaDriver() = default;
  absl::Status Error(const char* function, abi::CuResult result) const;
  absl::Status CheckCanExport(abi::CuDevice device) const;

  abi::CuInit* init_ = nullptr;
  abi::CuGetErrorString* error_string_ = nullptr;
  abi::CuGetErrorName* error_name_ = nullptr;
  abi::CuDeviceGetCount* device_count_ = nullptr;
  abi::CuDeviceGet* device_get_ = nullptr;
  abi::CuDeviceGetName* device_name_ = nullptr;
  abi::CuDeviceGetUuid* physical_uuid_ = nullptr;
  abi::CuDeviceGetUuid* uuid_ = nullptr;
  abi::CuDeviceTotalMem* total_mem_ = nullptr;
  abi::CuDeviceGetAttribute* attribute_ = nullptr;
  abi::CuMemGetAllocationGranularity* granularity_ = nullptr;
  abi::CuMemCreate* create_ = nullptr;
  abi::CuMemExportToShareableHandle* export_ = nullptr;
  abi::CuMemRelease* release_ = nullptr;
};

// CudaAllocation is memory of a device and its descriptor, which any process can import with
// cuMemImportFromShareableHandle. The memory is free once this object, all duplicates of the
// descriptor and all imports are gone.
class CudaAllocation {
 public:
  CudaAllocation(CudaAllocation&& other) noexcept = default;
  CudaAllocation& operator=(CudaAllocation&&) = delete;
  ~CudaAllocation();

  int fd() const { return fd_.get(); }  // close-on-exec

 private:
  friend class CudaDriver;
  CudaAllocation(std::shared_ptr<const CudaDriver> driver, abi::CuAllocation handle)
      : driver_(std::move(driver)), handle_(handle) {}

  std::shared_ptr<const CudaDriver> driver_;  // null after a move
  abi::CuAllocation handle_;
  UniqueFd fd_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_CUDA_DRIVER_H_
