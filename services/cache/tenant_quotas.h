// TenantQuotas holds the most that each tenant may have open in a pool at a time, and begin in a
// minute. Operators set it while the manager runs. The coordinator refuses what is beyond it, and
// lets what is open be.
//
// Thread-safe. Its lock is an innermost one.
#ifndef FOLIO_SERVICES_CACHE_TENANT_QUOTAS_H_
#define FOLIO_SERVICES_CACHE_TENANT_QUOTAS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/base/clock.h"
#include "services/base/ids.h"
#include "services/cache/request_rates.h"

namespace folio::cache {

// Limits of one tenant.
struct Quota {
  std::optional<uint32_t> sequences = {};  // that are open, parked ones and orphans included
  std::optional<PageCount> pages = {};     // that these may come to need together
  std::optional<uint32_t> requests_per_minute = {};  // at least 1; see request_rates.h

  bool limits() const {
    return sequences.has_value() || pages.has_value() || requests_per_minute.has_value();
  }
  bool operator==(const Quota&) const = default;
};

using QuotasByTenant = std::map<std::string, Quota, std::less<>>;

// "at most 4 sequences, 1 page and 60 requests a minute", or "no quota".
std::string QuotaText(const Quota& quota);
// `tenant "a"`, as refusals name it.
std::string QuotaOwner(absl::string_view tenant);

class TenantQuotas {
 public:
  // So many tenants may have one.
  static constexpr size_t kMost = 10'000;

  // Borrows the clock.
  explicit TenantQuotas(const Clock* clock) : rates_(clock) {}

  // In place of the tenant's quota. One without limits is forgotten. The count of a minute's
  // requests begins again if their number changes. RESOURCE_EXHAUSTED: kMost tenants have one.
  absl::Status Set(const std::string& tenant, const Quota& quota);
  // Without limits for a tenant that has none.
  Quota Of(absl::string_view tenant) const;
  QuotasByTenant all() const;

  // Whether a request may begin, or wait, by its tenant's requests a minute. `key` tells requests
  // apart. RESOURCE_EXHAUSTED says how long to stay away.
  absl::Status CheckRate(absl::string_view tenant, absl::string_view key) const;
  // The request has begun, or waits from now on. These two are const, because they change no quota.
  void CountRequest(absl::string_view tenant, absl::string_view key, bool waits) const;

 private:
  mutable absl::Mutex mu_;
  mutable RequestRates rates_ ABSL_GUARDED_BY(mu_);
  QuotasByTenant quotas_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_TENANT_QUOTAS_H_
