// DeviceInfo describes a GPU to the code that computes on it. No CUDA header is needed to include
// this. The manager has descriptions of its own (services/manager/memory), because it allocates
// through the driver alone and shows operators which ranks' pages a GPU holds.
#ifndef FOLIO_KERNELS_CUDA_DEVICE_INFO_H_
#define FOLIO_KERNELS_CUDA_DEVICE_INFO_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace folio::kernels::cuda {

struct DeviceInfo {
  int number = 0;    // CUDA's ordinal in this process, which CUDA_VISIBLE_DEVICES changes
  std::string uuid;  // "GPU-...", the same in every process
  std::string name;
  int major = 0, minor = 0;  // compute capability
  uint32_t processors = 0;   // multiprocessors
  size_t free_bytes = 0;     // when the device was opened
  size_t total_bytes = 0;

  std::string ToString() const { return "cuda:" + std::to_string(number) + " " + name; }
};

}  // namespace folio::kernels::cuda

#endif  // FOLIO_KERNELS_CUDA_DEVICE_INFO_H_
