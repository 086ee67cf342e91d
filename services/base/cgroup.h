// VisitCgroups finds the folders in which the limits of this process's cgroups are written.
// Any thread may call it.
#ifndef FOLIO_SERVICES_BASE_CGROUP_H_
#define FOLIO_SERVICES_BASE_CGROUP_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace folio {

enum class CgroupVersion { kV1, kV2 };

// Calls `visit` with each folder that may limit what `controller` counts (such as "memory"). These
// are the process's cgroup and all above it up to the mount's root, of every hierarchy. A folder
// may not exist. `membership` is the text of /proc/self/cgroup and `mount` is the folder where
// cgroups are mounted ("/sys/fs/cgroup"). If a container hides the path above it, the mount's root
// is the process's own cgroup.
inline void VisitCgroups(
    absl::string_view membership, absl::string_view controller, const std::string& mount,
    absl::FunctionRef<void(const std::string& folder, CgroupVersion version)> visit) {
  const auto upwards = [&](const std::string& root, std::string path, CgroupVersion version) {
    visit(root, version);
    for (; path.size() > 1; path.resize(path.rfind('/'))) visit(root + path, version);
  };
  for (absl::string_view line : absl::StrSplit(membership, '\n', absl::SkipEmpty())) {
    // hierarchy:controllers:path
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[0] == "0" && parts[1].empty()) {
      upwards(mount, parts[2], CgroupVersion::kV2);
      upwards(mount + "/unified", parts[2], CgroupVersion::kV2);
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) {
      continue;
    }
    // Mounted under the whole list's name ("cpu,cpuacct"), with "cpu" often a link to it.
    upwards(absl::StrCat(mount, "/", parts[1]), parts[2], CgroupVersion::kV1);
    if (parts[1] != controller) {
      upwards(absl::StrCat(mount, "/", controller), parts[2], CgroupVersion::kV1);
    }
  }
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_CGROUP_H_
