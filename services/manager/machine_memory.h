// How much memory there is for a pool.
#ifndef FOLIO_SERVICES_MANAGER_MACHINE_MEMORY_H_
#define FOLIO_SERVICES_MANAGER_MACHINE_MEMORY_H_

#include <cstdint>

namespace folio::manager {

struct MachineMemory {
  uint64_t total = 0;      // bytes; of our cgroup if that is less than the machine
  uint64_t available = 0;  // without swapping
};

// Zeros when the machine does not tell. Reads /proc/meminfo and /sys/fs/cgroup.
MachineMemory ReadMachineMemory();

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_MACHINE_MEMORY_H_
