// The CUDA driver, loaded when it is asked for: its devices, and allocations on them that other
// processes can map. No context is made and nothing is mapped, so that no fault of a GPU's work can
// reach this process. Errors are shown as the driver words them.
#ifndef FOLIO_SERVICES_MANAGER_CUDA_DRIVER_H_
#define FOLIO_SERVICES_MANAGER_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/common/unique_fd.h"
#include "services/manager/cuda_abi.h"

namespace folio::manager {

struct CudaDevice {
  int ordinal = 0;  // as CUDA numbers what it shows to this process
  std::string name;
  std::string uuid;          // "GPU-..."
  uint64_t total_bytes = 0;  // as the driver counts them
  size_t granularity = 0;    // allocations are multiples of it, in bytes
};

class CudaAllocation;

// Thread-safe.
class CudaDriver : public std::enable_shared_from_this<CudaDriver> {
 public:
  // NOT_FOUND when there is no such library, FAILED_PRECONDITION when it lacks a function or does
  // not start; `no_device` is set when it started and has no GPU to show.
  static absl::StatusOr<std::shared_ptr<const CudaDriver>> Load(const std::string& library,
                                                                bool* no_device);
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  // NOT_FOUND when there is none of this number; FAILED_PRECONDITION for one that cannot hand its
  // memory to other processes.
  absl::StatusOr<CudaDevice> Device(int ordinal) const;
  // `bytes`: a multiple of the granularity. RESOURCE_EXHAUSTED when the device has too little.
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

// Memory of a device and a descriptor of it, for cuMemImportFromShareableHandle in any process.
// The memory is free once this, all duplicates of the descriptor and all imports are gone.
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

  std::shared_ptr<const CudaDriver> driver_;  // null: moved from
  abi::CuAllocation handle_;
  UniqueFd fd_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_CUDA_DRIVER_H_
