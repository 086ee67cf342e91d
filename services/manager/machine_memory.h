// How much memory there is for a pool, and in what pages the machine gives it.
#ifndef FOLIO_SERVICES_MANAGER_MACHINE_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_MACHINE_MEMORY_H_

#include <cstdint>
#include <istream>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::manager {

struct MachineMemory {
  uint64_t total = 0;      // bytes; of our cgroup if that is less than the machine
  uint64_t available = 0;  // without swapping
  // The huge pages that the operator has reserved (hugetlb).
  uint64_t huge_page_bytes = 0;
  uint64_t free_huge_pages = 0;  // that nobody has claimed
};

// Zeros when the machine does not tell. Reads /proc/meminfo and the cgroups' limits.
MachineMemory ReadMachineMemory();

// What `info`, the text of /proc/meminfo, says of the whole machine.
MachineMemory ParseMemInfo(std::istream& info);
// Lowers total and available to the tightest limit on the way from the process's cgroup up to the
// root, v1 or v2. Arguments as of VisitCgroups.
void LimitByCgroups(absl::string_view membership, const std::string& mount, MachineMemory& memory);

// Whether shared memory that asks for transparent huge pages gets them. `modes` is the text of
// /sys/kernel/mm/transparent_hugepage/shmem_enabled: all modes, the chosen one in brackets.
bool TransparentForSharedMemory(absl::string_view modes);

// At most `fitting` pages of `page_bytes`, as many as fill whole huge pages. `fitting` itself when
// too few huge pages are free for them, or when fewer than `least` would be left.
uint64_t PagesThatFillHugePages(uint64_t fitting, uint64_t page_bytes, uint64_t least,
                                const MachineMemory& memory);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MACHINE_MEMORY_H_
