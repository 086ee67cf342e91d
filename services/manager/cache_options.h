// These functions convert the cache settings of a request to the coordinator's CacheConfig and
// back. They are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_MANAGER_CACHE_OPTIONS_H_
#define FOLIO_SERVICES_MANAGER_CACHE_OPTIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "folio/v1/types.pb.h"
#include "services/policy/budget.h"
#include "services/policy/cache_config.h"

namespace folio::manager {

// CacheRules are the settings of the pool and its operator that hold for every sequence.
struct CacheRules {
  uint32_t page_tokens = 16;
  uint32_t num_layers = 1;
  policy::BudgetRules budgets = {};
};

// RequestShape is the part of a request that its cache settings depend on.
struct RequestShape {
  uint64_t prompt_tokens = 0;
  uint64_t max_new_tokens = 0;
  uint64_t sampling_seed = 0;  // the default seed of policy `random`
};

// Fills in the defaults: policy `full`, sink and recent tokens of one page each, pipelined mode,
// the operator's budget, and a policy's parameters as PolicyFromProto does. INVALID_ARGUMENT names
// the field. With `full` sink and recent tokens are 0, and anything else is refused. The
// coordinator checks values that depend on the pool.
absl::StatusOr<policy::CacheConfig> CacheConfigFromProto(const v1::CacheOptions& options,
                                                         const CacheRules& rules,
                                                         const RequestShape& request);
v1::CacheOptions CacheConfigToProto(const policy::CacheConfig& config);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_CACHE_OPTIONS_H_
