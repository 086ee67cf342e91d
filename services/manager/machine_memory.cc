#include "services/manager/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace folio::manager {

MachineMemory ReadMachineMemory() {
  MachineMemory memory;
  std::ifstream info("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  for (std::string rest; info >> name >> kib; std::getline(info, rest)) {
    if (name == "MemTotal:") memory.total = kib * 1024;
    if (name == "MemAvailable:") memory.available = kib * 1024;
  }
  // In a container its own group is mounted here; "max" is no number.
  uint64_t limit = 0;
  uint64_t used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) {
    memory.total = std::min(memory.total, limit);
    std::ifstream("/sys/fs/cgroup/memory.current") >> used;
    memory.available = std::min(memory.available, limit - std::min(used, limit));
  }
  return memory;
}

}  // namespace folio::manager
