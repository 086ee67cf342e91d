#include "services/manager/memory/nvml.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "services/manager/memory/shared_library.h"

namespace folio::manager {

std::unique_ptr<const Nvml> Nvml::Load(const std::string& library_name) {
  const auto library = SharedLibrary::Open(library_name);
  if (!library.ok()) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml());
  abi::NvmlInit* init = nullptr;
  for (const absl::Status& status :
       {library->Find("nvmlInit_v2", &init), library->Find("nvmlDeviceGetCount_v2", &nvml->count_),
        library->Find("nvmlDeviceGetHandleByIndex_v2", &nvml->by_index_),
        library->Find("nvmlDeviceGetHandleByUUID", &nvml->by_uuid_),
        library->Find("nvmlDeviceGetName", &nvml->name_),
        library->Find("nvmlDeviceGetMemoryInfo", &nvml->memory_),
        library->Find("nvmlDeviceGetMigMode", &nvml->mig_mode_)}) {
    if (!status.ok()) return nullptr;
  }
  if (init() != abi::kNvmlSuccess) return nullptr;
  // Only what was begun is ended.
  if (!library->Find("nvmlShutdown", &nvml->shutdown_).ok()) return nullptr;
  return nvml;
}

Nvml::~Nvml() {
  if (shutdown_ != nullptr) shutdown_();
}

std::optional<Nvml::Memory> Nvml::MemoryOf(const std::string& uuid) const {
  abi::NvmlDevice device = nullptr;
  abi::NvmlMemory memory = {};
  if (by_uuid_(uuid.c_str(), &device) != abi::kNvmlSuccess ||
      memory_(device, &memory) != abi::kNvmlSuccess) {
    return std::nullopt;
  }
  return Memory{memory.total, memory.free};
}

std::vector<std::string> Nvml::InMigMode() const {
  std::vector<std::string> found;
  unsigned count = 0;
  if (count_(&count) != abi::kNvmlSuccess) return found;
  for (unsigned index = 0; index < count; ++index) {
    abi::NvmlDevice device = nullptr;
    unsigned current = 0, pending = 0;
    std::array<char, 96> name = {};
    if (by_index_(index, &device) != abi::kNvmlSuccess ||
        mig_mode_(device, &current, &pending) != abi::kNvmlSuccess ||
        current != abi::kNvmlMigEnabled ||
        name_(device, name.data(), name.size() - 1) != abi::kNvmlSuccess) {
      continue;
    }
    found.push_back(absl::StrCat("GPU ", index, " (", name.data(), ")"));
  }
  return found;
}

}  // namespace folio::manager
