// MachineMemory says how much memory of the host a pool can take, and whether in huge pages.
#ifndef FOLIO_SERVICES_MANAGER_MEMORY_MACHINE_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_MEMORY_MACHINE_MEMORY_H_

#include <cstdint>
#include <istream>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::manager {

struct MachineMemory {
  uint64_t total = 0;      // bytes of the machine, or of this process's cgroup if that is less
  uint64_t available = 0;  // without swapping
  // The huge pages that the operator has reserved (hugetlb).
  uint64_t huge_page_bytes = 0;
  uint64_t free_huge_pages = 0;  // not reserved by another mapping
};

// All zeros if the machine does not tell. Reads /proc/meminfo and the cgroups' limits.
MachineMemory ReadMachineMemory();

// Reads `info`, the text of /proc/meminfo, which is about the whole machine.
MachineMemory ParseMemInfo(std::istream& info);
// Lowers total and available to the tightest limit on the way from the process's cgroup up to the
// root, v1 or v2. The arguments are those of VisitCgroups.
void LimitByCgroups(absl::string_view membership, const std::string& mount, MachineMemory& memory);

// Whether shared memory that asks for transparent huge pages gets them. `modes` is the text of
// /sys/kernel/mm/transparent_hugepage/shmem_enabled: all modes, the chosen one in brackets.
bool TransparentForSharedMemory(absl::string_view modes);

// The largest number of pages up to `fitting` that fills whole huge pages. `fitting` itself if too
// few huge pages are free, or if fewer than `least` pages would be left.
uint64_t PagesThatFillHugePages(uint64_t fitting, uint64_t page_bytes, uint64_t least,
                                const MachineMemory& memory);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MEMORY_MACHINE_MEMORY_H_
