// DriverCalls holds the calls of the CUDA driver that have no counterpart in the runtime. They are
// looked up when they are first needed, so that a program that links this starts without a driver.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_DRIVER_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_DRIVER_H_

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

// The process's driver, which is loaded once and never unloaded. FAILED_PRECONDITION if there is
// none or if it is too old for a call. Any thread.
absl::StatusOr<const DriverCalls*> Driver();

// OK, or INTERNAL with the driver's words.
absl::Status DriverStatus(const DriverCalls& driver, absl::string_view what, CUresult result);

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_DRIVER_H_
