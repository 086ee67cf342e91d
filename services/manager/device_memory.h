// Page memory of GPUs: for each rank an allocation of the CUDA driver's virtual-memory API, which
// this process neither maps nor touches. `folio-manager --device=cuda:0`.
#ifndef FOLIO_SERVICES_MANAGER_DEVICE_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_DEVICE_MEMORY_H_

#include <memory>
#include <string>
#include <vector>

#include "services/manager/cuda_driver.h"
#include "services/manager/nvml.h"
#include "services/manager/page_memory.h"

namespace folio::manager {

struct CudaLibraries {
  std::string driver = "libcuda.so.1";
  std::string nvml = "libnvidia-ml.so.1";  // optional: without it free memory is not known
};

class DeviceMemory final : public PageSource {
 public:
  // On the devices of these numbers: one for all ranks, or one for each rank, in which one may be
  // named several times. Each is looked at before this returns; the error says what is missing, and
  // what to do. Starting a driver takes it up to some seconds.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Open(const std::vector<int>& ordinals,
                                                            const CudaLibraries& libraries);

  std::string device() const override;
  bool on_gpus() const override { return true; }
  std::vector<DeviceState> Devices() const override;
  absl::Status CheckSize(const PoolSize& size) const override;
  // Each rank's memory is rounded up to its device's granularity (2 MiB on today's). A share is of
  // each device's free memory. FAILED_PRECONDITION when more or fewer ranks than devices are asked
  // for, and for a share where NVML does not tell what is free.
  absl::StatusOr<uint64_t> PagesThatFit(const PoolSize& size,
                                        absl::Span<const uint64_t> rank_page_bytes,
                                        uint64_t least) const override;
  absl::StatusOr<std::unique_ptr<PageMemory>> Allocate(Rank rank, size_t bytes) const override;

 private:
  struct Gpu {
    CudaDevice cuda;
    std::string device() const;    // "cuda:0"
    std::string ToString() const;  // "cuda:0 (NVIDIA H200)"
  };

  DeviceMemory() = default;
  const Gpu& GpuOf(Rank rank) const;
  DeviceState StateOf(const Gpu& gpu) const;
  absl::Status TooLittle(const Gpu& gpu, uint64_t wanted) const;

  std::shared_ptr<const CudaDriver> driver_;
  std::unique_ptr<const Nvml> nvml_;  // null: not installed
  std::vector<Gpu> gpus_;             // each once
  std::vector<size_t> of_rank_;       // in gpus_; one alone is of all ranks
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_DEVICE_MEMORY_H_
