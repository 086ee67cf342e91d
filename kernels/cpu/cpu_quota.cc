#include "kernels/cpu/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace folio::kernels::cpu {
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

template <typename Limit>
double TightestUpwards(const std::string& root, std::string path, Limit limit) {
  double cores = limit(root);
  while (path.size() > 1) {
    cores = std::min(cores, limit(root + path));
    path.resize(path.rfind('/'));
  }
  return cores;
}

}  // namespace

double CgroupCores(absl::string_view membership, const std::string& mount) {
  double cores = kNoLimit;
  for (absl::string_view line : absl::StrSplit(membership, '\n', absl::SkipEmpty())) {
    // hierarchy:controllers:path
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    const std::string& path = parts[2];
    if (parts[0] == "0" && parts[1].empty()) {
      cores = std::min(cores, TightestUpwards(mount, path, LimitV2));
      cores = std::min(cores, TightestUpwards(mount + "/unified", path, LimitV2));
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) continue;
    // Mounted under the whole list's name ("cpu,cpuacct"), with "cpu" often a link to it.
    cores = std::min(cores, TightestUpwards(mount + "/" + parts[1], path, LimitV1));
    cores = std::min(cores, TightestUpwards(mount + "/cpu", path, LimitV1));
  }
  return cores;
}

}  // namespace folio::kernels::cpu
