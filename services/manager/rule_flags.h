// ReadPoolRules reads the flags that say which sequences get pages, how long they keep them, and
// when pages are cleared.
#ifndef FOLIO_SERVICES_MANAGER_RULE_FLAGS_H_
#define FOLIO_SERVICES_MANAGER_RULE_FLAGS_H_

#include "absl/status/statusor.h"
#include "services/manager/pool.h"

namespace folio::manager {

// The value of --admission, "optimistic" or "reserve".
const char* AdmissionName(cache::Admission admission);
// The value of --clear_pages, "between_tenants", "always" or "never".
const char* ClearPagesName(cache::ClearPages rule);

// INVALID_ARGUMENT names the flag and the fix.
absl::StatusOr<PoolRules> ReadPoolRules();

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_RULE_FLAGS_H_
