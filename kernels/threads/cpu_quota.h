// CgroupCores reads the CPU quota of the cgroup that this process is in (v1 or v2). It only reads
// files, and any thread may call it.
#ifndef FOLIO_KERNELS_THREADS_CPU_QUOTA_H_
#define FOLIO_KERNELS_THREADS_CPU_QUOTA_H_

#include <string>

#include "absl/strings/string_view.h"

namespace folio::kernels {

// The number of cores allowed, e.g. 1.5, or +infinity without a limit. The tightest limit on the
// way from the process's cgroup up to the root counts. `membership` is the text of
// /proc/self/cgroup and `mount` is the folder where cgroups are mounted ("/sys/fs/cgroup"). If a
// container hides the path above it, the mount's root is the process's own cgroup. See "CPU" in the
// kernel's cgroup-v2 manual and "CFS Bandwidth Control".
double CgroupCores(absl::string_view membership, const std::string& mount);

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_THREADS_CPU_QUOTA_H_
