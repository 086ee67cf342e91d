// folio-manager's command line.
#ifndef FOLIO_SERVICES_MANAGER_FLAGS_H_
#define FOLIO_SERVICES_MANAGER_FLAGS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/manager/server.h"

namespace folio::manager {

struct ManagerFlags {
  ServerOptions server;  // `clock` and `pages` are not set
  std::vector<int>
      devices;  // numbers of GPUs that pages are on, as given; empty: the host's memory
  absl::Duration drain_timeout;
};

// Checks the parsed flags and fills in defaults. INVALID_ARGUMENT names the flag and the fix.
absl::StatusOr<ManagerFlags> ReadFlags();

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_FLAGS_H_
