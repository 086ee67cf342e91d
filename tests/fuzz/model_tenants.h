// ModelTenants restates what the quotas of tenants allow.
#ifndef FOLIO_TESTS_FUZZ_MODEL_TENANTS_H_
#define FOLIO_TESTS_FUZZ_MODEL_TENANTS_H_

#include <map>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/cache/tenant_quotas.h"
#include "tests/fuzz/cache_model.h"

namespace folio::cache {

class ModelTenants {
 public:
  // Borrows the model.
  explicit ModelTenants(const CacheModel& model) : model_(model) {}

  void Set(const std::string& tenant, const Quota& quota);
  // Whether the request is refused whatever room there is, at this time.
  bool Refuses(const OpenRequest& request, SteadyTime now) const;
  // The request has begun, or waits for room from now on.
  void Count(const OpenRequest& request, bool waits, SteadyTime now);

 private:
  // Water drips out of each tenant's bucket, which holds a minute of it. A request pours its part
  // of a minute in, if that does not overflow.
  struct Bucket {
    absl::Duration level;
    SteadyTime since;
  };
  absl::Duration LevelOf(const std::string& tenant, SteadyTime now) const;
  // Requests that look the same here are one request.
  static std::string Name(const OpenRequest& request);

  const CacheModel& model_;
  QuotasByTenant quotas_;
  std::map<std::string, Bucket> buckets_;
  std::set<std::string> waiting_;  // those that were counted
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_MODEL_TENANTS_H_
