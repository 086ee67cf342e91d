// The calls of the CUDA driver that have no counterpart in the runtime, found when they are first
// wanted: a program that is linked with this starts where there is no driver.
#ifndef FOLIO_KERNELS_CUDA_DRIVER_H_
#define FOLIO_KERNELS_CUDA_DRIVER_H_

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace folio::kernels::cuda {

struct DriverCalls {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuGetErrorString) error_string = nullptr;
  decltype(&::cuMemImportFromShareableHandle) import = nullptr;
  decltype(&::cuMemGetAllocationPropertiesFromHandle) properties = nullptr;
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
};

// The process's driver, loaded once and never let go of. FAILED_PRECONDITION: there is none, or it
// is too old for a call. Any thread.
absl::StatusOr<const DriverCalls*> Driver();

// OK, or INTERNAL with the driver's words.
absl::Status DriverStatus(const DriverCalls& driver, absl::string_view what, CUresult result);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_DRIVER_H_
