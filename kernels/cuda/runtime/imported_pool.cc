#include "kernels/cuda/runtime/imported_pool.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/driver.h"

namespace folio::kernels::cuda {
namespace {

// Releases the handle when it goes out of scope, whether the memory was mapped or not.
class Handle {
 public:
  explicit Handle(const DriverCalls& driver) : driver_(driver) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (held_) driver_.release(handle_);
  }
  CUresult Import(int fd) {
    // The descriptor travels in place of a pointer.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's interface needs it.
    void* const as_pointer = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
    const CUresult result =
        driver_.import(&handle_, as_pointer, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    held_ = result == CUDA_SUCCESS;
    return result;
  }
  CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  const DriverCalls& driver_;
  CUmemGenericAllocationHandle handle_ = 0;
  bool held_ = false;
};

}  // namespace

absl::StatusOr<ImportedPool> ImportedPool::Import(int fd, size_t bytes, int device) {
  auto driver = Driver();
  if (!driver.ok()) return driver.status();
  return Import(**driver, fd, bytes, device);
}

absl::StatusOr<ImportedPool> ImportedPool::Import(const DriverCalls& driver, int fd, size_t bytes,
                                                  int device) {
  Handle handle(driver);
  absl::Status status =
      DriverStatus(driver, "the pool's descriptor is not memory of a GPU that this one reaches",
                   handle.Import(fd));
  if (!status.ok()) return absl::FailedPreconditionError(status.message());
  CUmemAllocationProp properties = {};
  size_t granularity = 0;
  status = DriverStatus(driver, "the pool's memory does not say what it is",
                        driver.properties(&properties, handle.get()));
  if (status.ok()) {
    status = DriverStatus(
        driver, "the pool's memory does not say its granularity",
        driver.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }
  if (!status.ok()) return status;

  ImportedPool pool(driver);
  pool.bytes_ = (bytes + granularity - 1) / granularity * granularity;
  CUdeviceptr address = 0;
  status = DriverStatus(driver, absl::StrCat("no addresses for ", pool.bytes_, " bytes of pages"),
                        driver.reserve(&address, pool.bytes_, 0, 0, 0));
  if (!status.ok()) return status;
  pool.address_ = address;
  status = DriverStatus(driver,
                        absl::StrCat("the pool cannot be mapped, or is shorter than the ",
                                     pool.bytes_, " bytes that the manager promised"),
                        driver.map(address, pool.bytes_, 0, handle.get(), 0));
  if (!status.ok()) return absl::FailedPreconditionError(status.message());
  pool.mapped_ = true;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  status = DriverStatus(driver, absl::StrCat("GPU ", device, " may not use the pool"),
                        driver.set_access(address, pool.bytes_, &access, 1));
  if (!status.ok()) return status;
  return pool;
}

ImportedPool::~ImportedPool() {
  if (driver_ == nullptr || address_ == 0) return;
  if (mapped_) driver_->unmap(address_, bytes_);
  driver_->free(address_, bytes_);
}

}  // namespace folio::kernels::cuda
