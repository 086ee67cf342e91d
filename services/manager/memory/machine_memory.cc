#include "services/manager/memory/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>

#include "absl/strings/match.h"
#include "services/base/cgroup.h"

namespace folio::manager {

MachineMemory ParseMemInfo(std::istream& info) {
  MachineMemory memory;
  uint64_t reserved = 0;  // by the operator
  uint64_t claimed = 0;   // mapped, not touched yet
  std::string name;
  uint64_t value = 0;
  for (std::string rest; info >> name >> value; std::getline(info, rest)) {
    if (name == "MemTotal:") memory.total = value * 1024;
    if (name == "MemAvailable:") memory.available = value * 1024;
    if (name == "Hugepagesize:") memory.huge_page_bytes = value * 1024;
    if (name == "HugePages_Total:") reserved = value;
    if (name == "HugePages_Free:") memory.free_huge_pages = value;
    if (name == "HugePages_Rsvd:") claimed = value;
  }
  memory.free_huge_pages -= std::min(claimed, memory.free_huge_pages);
  if (reserved == 0) memory.huge_page_bytes = 0;
  return memory;
}

void LimitByCgroups(absl::string_view membership, const std::string& mount, MachineMemory& memory) {
  VisitCgroups(membership, "memory", mount, [&](const std::string& folder, CgroupVersion version) {
    const bool v2 = version == CgroupVersion::kV2;
    uint64_t limit = 0;
    uint64_t used = 0;
    // Without a limit v2 says "max", which is not a number, and v1 a number that nothing reaches.
    if (!(std::ifstream(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes")) >> limit)) return;
    std::ifstream(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")) >> used;
    memory.total = std::min(memory.total, limit);
    memory.available = std::min(memory.available, limit - std::min(used, limit));
  });
}

MachineMemory ReadMachineMemory() {
  std::ifstream info("/proc/meminfo");
  MachineMemory memory = ParseMemInfo(info);
  std::ifstream file("/proc/self/cgroup");
  const std::string membership(std::istreambuf_iterator<char>(file), {});
  LimitByCgroups(membership, "/sys/fs/cgroup", memory);
  return memory;
}

bool TransparentForSharedMemory(absl::string_view modes) {
  for (const char* mode : {"[always]", "[within_size]", "[advise]", "[force]"}) {
    if (absl::StrContains(modes, mode)) return true;
  }
  return false;
}

uint64_t PagesThatFillHugePages(uint64_t fitting, uint64_t page_bytes, uint64_t least,
                                const MachineMemory& memory) {
  const uint64_t huge = memory.huge_page_bytes;
  if (huge == 0 || page_bytes == 0) return fitting;
  // The fewest pages that end where a huge page ends.
  const uint64_t step = huge / std::gcd(huge, page_bytes);
  const uint64_t filled = fitting / step * step;
  const bool enough = filled * page_bytes / huge <= memory.free_huge_pages;
  return filled != 0 && filled >= least && enough ? filled : fitting;
}

}  // namespace folio::manager
