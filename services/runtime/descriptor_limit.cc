#include "services/runtime/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "services/runtime/logging.h"

namespace folio {
namespace {

constexpr rlim_t kMost = 1 << 20;

}  // namespace

int RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < std::min(limit.rlim_max, kMost)) {
    limit.rlim_cur = std::min(limit.rlim_max, kMost);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      log::Warning("cannot raise the limit of file descriptors", {{"errno", errno}});
    }
  }
  return DescriptorLimit();
}

int DescriptorLimit() {
  rlimit limit = {};
  // The smallest limit that POSIX allows, for the case that the limit cannot be read.
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 20;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

}  // namespace folio
