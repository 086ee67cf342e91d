// Nvml reads from NVML how much memory of a GPU is free and which GPUs are in MIG mode. It is
// optional: if NVML is not installed or does not know, the answer is empty.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_NVML_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_NVML_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/manager/memory/cuda_abi.h"

namespace folio::manager {

// Thread-safe.
class Nvml {
 public:
  struct Memory {
    uint64_t total = 0;  // bytes
    uint64_t free = 0;   // not used by any process
  };

  // Null if `library` cannot be loaded or does not work.
  static std::unique_ptr<const Nvml> Load(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // `uuid` is "GPU-...".
  std::optional<Memory> MemoryOf(const std::string& uuid) const;
  // "GPU 0 (NVIDIA H200)", as nvidia-smi numbers them.
  std::vector<std::string> InMigMode() const;

 private:
  Nvml() = default;

  abi::NvmlShutdown* shutdown_ = nullptr;
  abi::NvmlDeviceGetCount* count_ = nullptr;
  abi::NvmlDeviceGetHandleByIndex* by_index_ = nullptr;
  abi::NvmlDeviceGetHandleByUuid* by_uuid_ = nullptr;
  abi::NvmlDeviceGetName* name_ = nullptr;
  abi::NvmlDeviceGetMemoryInfo* memory_ = nullptr;
  abi::NvmlDeviceGetMigMode* mig_mode_ = nullptr;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_NVML_H_
