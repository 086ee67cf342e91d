// CudaStatus turns an error of the CUDA runtime into a status. Only sources include this, because
// it includes a CUDA header.
#ifndef FOLIO_KERNELS_CUDA_RUNTIME_CUDA_STATUS_H_
#define FOLIO_KERNELS_CUDA_RUNTIME_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace folio::kernels::cuda {

// OK, or INTERNAL with `what` and CUDA's words.
inline absl::Status CudaStatus(absl::string_view what, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_RUNTIME_CUDA_STATUS_H_
