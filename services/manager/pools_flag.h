// ReadPools reads the flag --pools. It names the pools of a manager and divides its memory among
// them.
#ifndef FOLIO_SERVICES_MANAGER_POOLS_FLAG_H_
#define FOLIO_SERVICES_MANAGER_POOLS_FLAG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/manager/pool_share.h"

namespace folio::manager {

// Each text is "NAME:SHARE%". INVALID_ARGUMENT names the flag and the fix: a name that is none or
// comes twice, a share that is none, or shares of more than 100% together.
absl::StatusOr<std::vector<PoolShare>> ParsePools(const std::vector<std::string>& given);

// The value of the flag. Empty if it was not given.
absl::StatusOr<std::vector<PoolShare>> ReadPools();

// "chat:70%,embed:30%".
std::string FormatPools(const std::vector<PoolShare>& pools);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOLS_FLAG_H_
