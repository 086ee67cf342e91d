// TenantQuotas holds the most that each tenant may have open in a pool at a time. Operators set it
// while the manager runs. The coordinator refuses what is beyond it, and lets what is open be.
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
#include "services/base/ids.h"

namespace folio::cache {

// Limits of one tenant.
struct Quota {
  std::optional<uint32_t> sequences = {};  // that are open, parked ones and orphans included
  std::optional<PageCount> pages = {};     // that these may come to need together

  bool limits() const { return sequences.has_value() || pages.has_value(); }
  bool operator==(const Quota&) const = default;
};

using QuotasByTenant = std::map<std::string, Quota, std::less<>>;

// "at most 4 sequences and 1 page", or "no quota".
std::string QuotaText(const Quota& quota);

class TenantQuotas {
 public:
  // So many tenants may have one.
  static constexpr size_t kMost = 10'000;

  // In place of the tenant's quota. One without limits is forgotten. RESOURCE_EXHAUSTED: kMost
  // tenants have one.
  absl::Status Set(const std::string& tenant, const Quota& quota);
  // Without limits for a tenant that has none.
  Quota Of(absl::string_view tenant) const;
  QuotasByTenant all() const;

 private:
  mutable absl::Mutex mu_;
  QuotasByTenant quotas_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_TENANT_QUOTAS_H_
