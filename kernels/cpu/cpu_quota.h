// The CPU quota of the cgroup this process is in (v1 or v2). Reads files only; any thread.
#ifndef FOLIO_KERNELS_CPU_CPU_QUOTA_H_
#define FOLIO_KERNELS_CPU_CPU_QUOTA_H_

#include <string>

#include "absl/strings/string_view.h"

namespace folio::kernels::cpu {

// Cores allowed, e.g. 1.5; +infinity when nothing limits them. The tightest limit on the way from
// the process's cgroup up to the root counts. `membership` is the text of /proc/self/cgroup,
// `mount` the folder cgroups are mounted at ("/sys/fs/cgroup"). Where a container hides the path
// above it, the mount's root is the process's own cgroup.
// See "CPU" in the kernel's cgroup-v2 manual and "CFS Bandwidth Control".
double CgroupCores(absl::string_view membership, const std::string& mount);

}  // namespace folio::kernels::cpu

#endif  // FOLIO_KERNELS_CPU_CPU_QUOTA_H_
