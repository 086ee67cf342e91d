#include "services/access/access_flag.h"

#include <string>

#include "absl/flags/flag.h"
#include "services/runtime/flags.h"

ABSL_FLAG(std::string, access, "",
          "a file with tenants, their limits, and the credentials of callers, one record a line. "
          "Empty: every caller that reaches the daemon may do everything. The file is read again "
          "when it changes");

namespace folio::access {

absl::StatusOr<std::shared_ptr<AccessList>> OpenAccess() {
  const std::string path = absl::GetFlag(FLAGS_access);
  if (path.empty()) return nullptr;
  auto list = AccessList::Open(path);
  if (!list.ok()) return BadFlag("access", path, list.status().message());
  return std::shared_ptr<AccessList>(*std::move(list));
}

}  // namespace folio::access
