#include "services/manager/memory/cuda_driver.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/manager/memory/shared_library.h"

namespace folio::manager {
namespace {

// As nvidia-smi writes it.
std::string UuidText(const abi::CuUuid& uuid) {
  const std::string hex = absl::BytesToHexString(absl::string_view(uuid.bytes, 16));
  const absl::string_view digits = hex;
  return absl::StrCat("GPU-", digits.substr(0, 8), "-", digits.substr(8, 4), "-",
                      digits.substr(12, 4), "-", digits.substr(16, 4), "-", digits.substr(20));
}

abi::CuAllocationProp Properties(int ordinal) {
  abi::CuAllocationProp prop = {};
  prop.type = abi::kCuPinned;
  prop.requested_handle_types = abi::kCuPosixFd;
  prop.location.type = abi::kCuOnDevice;
  prop.location.id = ordinal;
  return prop;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaDriver>> CudaDriver::Load(const std::string& library_name,
                                                                   bool* no_device) {
  *no_device = false;
  const auto library = SharedLibrary::Open(library_name);
  if (!library.ok()) return library.status();
  std::shared_ptr<CudaDriver> driver(new CudaDriver());
  for (const absl::Status& status :
       {library->Find("cuInit", &driver->init_),
        library->Find("cuGetErrorString", &driver->error_string_),
        library->Find("cuGetErrorName", &driver->error_name_),
        library->Find("cuDeviceGetCount", &driver->device_count_),
        library->Find("cuDeviceGet", &driver->device_get_),
        library->Find("cuDeviceGetName", &driver->device_name_),
        library->Find("cuDeviceGetUuid", &driver->physical_uuid_),
        library->Find("cuDeviceGetUuid_v2", &driver->uuid_),
        library->Find("cuDeviceTotalMem_v2", &driver->total_mem_),
        library->Find("cuDeviceGetAttribute", &driver->attribute_),
        library->Find("cuMemGetAllocationGranularity", &driver->granularity_),
        library->Find("cuMemCreate", &driver->create_),
        library->Find("cuMemExportToShareableHandle", &driver->export_),
        library->Find("cuMemRelease", &driver->release_)}) {
    if (!status.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          status.message(), ": the NVIDIA driver is too old; update it to 550 or newer"));
    }
  }
  const abi::CuResult started = driver->init_(0);
  *no_device = started == abi::kCuErrorNoDevice;
  if (started != abi::kCuSuccess) return driver->Error("cuInit", started);
  return driver;
}

absl::Status CudaDriver::Error(const char* function, abi::CuResult result) const {
  if (result == abi::kCuSuccess) return absl::OkStatus();
  const char* text = nullptr;
  const char* name = nullptr;
  if (error_string_(result, &text) != abi::kCuSuccess || text == nullptr) text = "unknown error";
  if (error_name_(result, &name) != abi::kCuSuccess || name == nullptr) name = "unnamed";
  const std::string message = absl::StrCat(function, ": ", text, " (", name, ", ", result, ")");
  return result == abi::kCuErrorOutOfMemory ? absl::ResourceExhaustedError(message)
                                            : absl::FailedPreconditionError(message);
}

absl::Status CudaDriver::CheckCanExport(abi::CuDevice device) const {
  const struct {
    int attribute;
    const char* lacks;
  } kNeeded[] = {{abi::kCuHasVmm, "virtual memory management"},
                 {abi::kCuHasPosixFd, "handing out memory as POSIX file descriptors"}};
  for (const auto& needed : kNeeded) {
    int has = 0;
    if (absl::Status status =
            Error("cuDeviceGetAttribute", attribute_(&has, needed.attribute, device));
        !status.ok()) {
      return status;
    }
    if (has == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the device or its driver does not support ", needed.lacks));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaDevice> CudaDriver::Device(int ordinal) const {
  int count = 0;
  if (auto status = Error("cuDeviceGetCount", device_count_(&count)); !status.ok()) return status;
  if (ordinal >= count) {
    return absl::NotFoundError(
        absl::StrCat("CUDA shows ", count, count == 1 ? " device" : " devices",
                     " to this process, numbered from 0; CUDA_VISIBLE_DEVICES may hide others"));
  }
  CudaDevice made;
  made.ordinal = ordinal;
  abi::CuDevice device = 0;
  std::array<char, 256> name = {};
  abi::CuUuid uuid = {}, physical = {};
  size_t total = 0;
  const abi::CuAllocationProp prop = Properties(ordinal);
  // In this order: each needs the one before.
  const auto ask = [&]() -> absl::Status {
    if (auto s = Error("cuDeviceGet", device_get_(&device, ordinal)); !s.ok()) return s;
    if (auto s = Error("cuDeviceGetName",
                       device_name_(name.data(), static_cast<int>(name.size()) - 1, device));
        !s.ok()) {
      return s;
    }
    if (auto s = Error("cuDeviceGetUuid", physical_uuid_(&physical, device)); !s.ok()) return s;
    if (auto s = Error("cuDeviceGetUuid_v2", uuid_(&uuid, device)); !s.ok()) return s;
    return Error("cuDeviceTotalMem", total_mem_(&total, device));
  };
  if (auto status = ask(); !status.ok()) return status;
  made.name = name.data();
  made.uuid = UuidText(uuid);
  made.total_bytes = total;
  // The newer call tells an instance's identity, the older one the whole GPU's.
  if (!std::equal(std::begin(uuid.bytes), std::end(uuid.bytes), std::begin(physical.bytes)) ||
      absl::StrContains(made.name, " MIG ")) {
    return absl::FailedPreconditionError(
        absl::StrCat(made.name,
                     " is a MIG instance, and pages need a whole GPU; turn MIG mode off "
                     "(nvidia-smi -mig 0)"));
  }
  if (auto status = CheckCanExport(device); !status.ok()) return status;
  if (auto status = Error("cuMemGetAllocationGranularity",
                          granularity_(&made.granularity, &prop, abi::kCuRecommended));
      !status.ok()) {
    return status;
  }
  return made;
}

absl::StatusOr<CudaAllocation> CudaDriver::Allocate(const CudaDevice& device, size_t bytes) const {
  const abi::CuAllocationProp prop = Properties(device.ordinal);
  abi::CuAllocation handle = 0;
  if (auto status = Error("cuMemCreate", create_(&handle, bytes, &prop, 0)); !status.ok()) {
    return status;
  }
  CudaAllocation made(shared_from_this(), handle);
  int fd = -1;
  if (auto status = Error("cuMemExportToShareableHandle", export_(&fd, handle, abi::kCuPosixFd, 0));
      !status.ok()) {
    return status;
  }
  made.fd_.Reset(fd);
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "fcntl");
  return made;
}

CudaAllocation::~CudaAllocation() {
  if (driver_ != nullptr) driver_->release_(handle_);
}

}  // namespace folio::manager
