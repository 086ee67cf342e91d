// The devices that the emulation has, and which of them a thread uses. They have one memory.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "tests/manager/fake_gpu/knobs.h"

namespace folio::emulate {
namespace {

// Numbers of the stand-in driver's devices.
const std::vector<int>& Visible() {
  static const std::vector<int> visible = [] {
    std::vector<int> devices;
    for (const char digit : folio::testing::fake_gpu::Knob("CUDA_VISIBLE_DEVICES", "0")) {
      if (digit != ',') devices.push_back(digit - '0');
    }
    return devices;
  }();
  return visible;
}
thread_local int current = 0;

}  // namespace
}  // namespace folio::emulate

namespace emulate = folio::emulate;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(emulate::Visible().size());
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || static_cast<size_t>(device) >= emulate::Visible().size()) {
    return cudaErrorInvalidDevice;
  }
  emulate::current = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = emulate::current;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || static_cast<size_t>(device) >= emulate::Visible().size()) {
    return cudaErrorInvalidDevice;
  }
  // Few multiprocessors, because work is divided into blocks for each of them.
  *properties = {"emulated", {}, 9, 0, 8};
  for (int i = 0; i < 16; ++i) {
    properties->uuid.bytes[i] =
        folio::testing::fake_gpu::UuidByte(emulate::Visible()[static_cast<size_t>(device)], i);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (attribute != cudaDevAttrComputeCapabilityMajor) return cudaErrorInvalidValue;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) *value = properties.major;
  return error;
}
