// Runs the tests where there is a device, a GPU or its emulation; else says so and exits with the
// code that ctest takes as "skipped".
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr int kSkipped = 77;
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (!testing::GTEST_FLAG(list_tests) && (found != cudaSuccess || devices == 0)) {
    std::printf("no CUDA driver here (%s): no kernel was run\n", cudaGetErrorString(found));
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
