// DeviceMemory is page memory of GPUs (`folio-manager --device=cuda:0`). Each rank's memory is one
// allocation of the CUDA driver's virtual-memory API, which the manager neither maps nor touches
// (see CudaDriver for why).
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_DEVICE_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_DEVICE_MEMORY_H_

#include <memory>
#include <string>
#include <vector>

#include "services/manager/memory/cuda_driver.h"
#include "services/manager/memory/nvml.h"
#include "services/manager/memory/page_memory.h"

namespace folio::manager {

struct CudaLibraries {
  std::string driver = "libcuda.so.1";
  std::string nvml = "libnvidia-ml.so.1";  // optional, free memory is unknown without it
};

class DeviceMemory final : public PageSource {
 public:
  // Takes the GPUs of these numbers: one for all ranks, or one for each rank, where a GPU may occur
  // several times. It opens each of them, so an error says at once what is missing and what to do.
  // Starting a driver can take some seconds.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Open(const std::vector<int>& ordinals,
                                                            const CudaLibraries& libraries);

  std::string device() const override;
  bool on_gpus() const override { return true; }
  std::vector<DeviceState> Devices() const override;
  absl::Status CheckSize(const PoolSize& size) const override;
  // Each rank's memory is rounded up to its GPU's granularity (2 MiB on today's GPUs). A share is
  // of each GPU's free memory. FAILED_PRECONDITION if the number of ranks is not the number of
  // GPUs, or for a share if NVML does not tell how much is free.
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
  std::unique_ptr<const Nvml> nvml_;  // null if it is not installed
  std::vector<Gpu> gpus_;             // each once
  std::vector<size_t> of_rank_;       // index in gpus_, a single one for all ranks
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_DEVICE_MEMORY_H_
