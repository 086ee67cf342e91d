// NeedDevice lets a program that needs a GPU end early where there is none.
#ifndef FOLIO_TESTS_GPU_NEED_DEVICE_H_
#define FOLIO_TESTS_GPU_NEED_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdio>

namespace folio::testing {

// The exit code that ctest counts as "skipped".
inline constexpr int kNoDevice = 77;

// Returns 0 if there is a device, a GPU or the emulator. Otherwise it prints the reason and returns
// the exit code, which is a failure, not a skip, if there is a driver that cannot be used.
inline int NeedDevice() {
  int devices = 0;
  int driver = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found == cudaSuccess && devices > 0) return 0;
  const bool has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  if (has_driver && found != cudaSuccess && found != cudaErrorNoDevice) {
    std::printf("the CUDA driver here (%d) is of no use: %s\n", driver, cudaGetErrorString(found));
    return 1;
  }
  std::printf("no GPU here (%s): nothing was run on one\n",
              has_driver ? cudaGetErrorString(found) : "nor a driver");
  return kNoDevice;
}

}  // namespace folio::testing

#endif  // FOLIO_TESTS_GPU_NEED_DEVICE_H_
