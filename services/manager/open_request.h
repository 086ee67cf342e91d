// MakeOpenRequest turns a worker's OpenSequence into what the coordinator is asked to open.
#ifndef FOLIO_SERVICES_MANAGER_OPEN_REQUEST_H_
#define FOLIO_SERVICES_MANAGER_OPEN_REQUEST_H_

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/coordinator_types.h"
#include "services/manager/cache_options.h"

namespace folio::manager {

// INVALID_ARGUMENT names the field. Values that depend on each other or on the pool are the
// coordinator's to check. Pure; any thread.
absl::StatusOr<cache::OpenRequest> MakeOpenRequest(const OpenSequence& open, WorkerId worker,
                                                   const CacheRules& rules);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_OPEN_REQUEST_H_
