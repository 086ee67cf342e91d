#include "kernels/cuda/runtime/driver.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace folio::kernels::cuda {
namespace {

template <typename Call>
void Find(void* library, const char* name, Call& call, absl::Status& status) {
  call = reinterpret_cast<Call>(dlsym(library, name));
  if (call != nullptr) return;
  status.Update(absl::FailedPreconditionError(
      absl::StrCat("the CUDA driver here has no ", name, ": it is too old")));
}

absl::StatusOr<DriverCalls> Load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no CUDA driver here: ", dlerror()));
  }
  DriverCalls calls;
  absl::Status status;
  Find(library, "cuInit", calls.init, status);
  Find(library, "cuGetErrorString", calls.error_string, status);
  Find(library, "cuMemImportFromShareableHandle", calls.import, status);
  Find(library, "cuMemGetAllocationPropertiesFromHandle", calls.properties, status);
  Find(library, "cuMemGetAllocationGranularity", calls.granularity, status);
  Find(library, "cuMemAddressReserve", calls.reserve, status);
  Find(library, "cuMemAddressFree", calls.free, status);
  Find(library, "cuMemMap", calls.map, status);
  Find(library, "cuMemUnmap", calls.unmap, status);
  Find(library, "cuMemSetAccess", calls.set_access, status);
  Find(library, "cuMemRelease", calls.release, status);
  if (!status.ok()) return status;
  status = DriverStatus(calls, "the CUDA driver does not start", calls.init(0));
  if (!status.ok()) return absl::FailedPreconditionError(status.message());
  return calls;
}

}  // namespace

absl::StatusOr<const DriverCalls*> Driver() {
  static const absl::StatusOr<DriverCalls> calls = Load();
  if (!calls.ok()) return calls.status();
  return &*calls;
}

absl::Status DriverStatus(const DriverCalls& driver, absl::string_view what, CUresult result) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* words = nullptr;
  if (driver.error_string(result, &words) != CUDA_SUCCESS || words == nullptr) words = "?";
  return absl::InternalError(absl::StrCat(what, ": ", words, " (", static_cast<int>(result), ")"));
}

}  // namespace folio::kernels::cuda
