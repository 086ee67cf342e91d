// The CUDA libraries are linked as the build says: their versions are those of the headers, which
// needs no driver. With a driver a cuBLASLt handle is made; without one that is said, and the exit
// code is the one that ctest takes as "skipped". Any failure is 1.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>

#include "tests/gpu/need_device.h"

namespace {

bool VersionsAgree() {
  int nccl = 0;
  if (ncclGetVersion(&nccl) != ncclSuccess) {
    std::fprintf(stderr, "NCCL does not say its version\n");
    return false;
  }
  int runtime = 0;
  if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) {
    std::fprintf(stderr, "the CUDA runtime does not say its version\n");
    return false;
  }
  std::printf("CUDA runtime %d (headers %d), cuBLASLt %zu (headers %d), NCCL %d (headers %d)\n",
              runtime, CUDART_VERSION, cublasLtGetVersion(), CUBLAS_VERSION, nccl,
              NCCL_VERSION_CODE);
  return runtime == CUDART_VERSION && cublasLtGetVersion() == CUBLAS_VERSION &&
         nccl == NCCL_VERSION_CODE;
}

bool MakesAHandle() {
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t status = cublasLtCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    std::fprintf(stderr, "cuBLASLt makes no handle: %s\n", cublasLtGetStatusString(status));
    return false;
  }
  return cublasLtDestroy(handle) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace

int main() {
  if (!VersionsAgree()) {
    std::fprintf(stderr, "a library and its header are of different versions\n");
    return 1;
  }
  if (const int code = folio::testing::NeedDevice(); code != 0) return code;
  return MakesAHandle() ? 0 : 1;
}
