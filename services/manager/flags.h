// ManagerFlags is the command line of folio-manager, checked.
#ifndef FOLIO_SERVICES_MANAGER_FLAGS_H_
#define FOLIO_SERVICES_MANAGER_FLAGS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/manager/server.h"

namespace folio::manager {

struct ManagerFlags {
  ServerOptions server;      // `clock` and `pages` are not set
  std::vector<int> devices;  // numbers of the GPUs that pages are on, empty for host memory
  bool prefault = false;     // of pages in host memory
  absl::Duration drain_timeout;
};

// Fills in defaults too. INVALID_ARGUMENT names the flag and the fix.
absl::StatusOr<ManagerFlags> ReadFlags();

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_FLAGS_H_
