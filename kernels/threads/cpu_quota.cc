#include "kernels/threads/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "services/base/cgroup.h"

namespace folio::kernels {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double Cores(absl::string_view quota, absl::string_view period) {
  double q = 0;
  double p = 0;
  if (!absl::SimpleAtod(quota, &q) || !absl::SimpleAtod(period, &p)) return kNoLimit;
  return q > 0 && p > 0 ? q / p : kNoLimit;
}

// "quota period" or "max period".
double LimitV2(const std::string& folder) {
  const std::string line = FirstLine(folder + "/cpu.max");
  const std::vector<std::string> parts = absl::StrSplit(line, ' ', absl::SkipEmpty());
  return parts.size() == 2 ? Cores(parts[0], parts[1]) : kNoLimit;
}

double LimitV1(const std::string& folder) {
  return Cores(FirstLine(folder + "/cpu.cfs_quota_us"), FirstLine(folder + "/cpu.cfs_period_us"));
}

}  // namespace

double CgroupCores(absl::string_view membership, const std::string& mount) {
  double cores = kNoLimit;
  VisitCgroups(membership, "cpu", mount, [&](const std::string& folder, CgroupVersion version) {
    cores = std::min(cores, version == CgroupVersion::kV2 ? LimitV2(folder) : LimitV1(folder));
  });
  return cores;
}

}  // namespace folio::kernels
