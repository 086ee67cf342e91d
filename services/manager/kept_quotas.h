// KeptQuotas sets the quotas of tenants, and has those that operators set outlive the manager: each
// journal keeps them for the next one.
#ifndef FOLIO_SERVICES_MANAGER_KEPT_QUOTAS_H_
#define FOLIO_SERVICES_MANAGER_KEPT_QUOTAS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/cache/tenant_quotas.h"
#include "services/manager/manager_journal.h"

namespace folio::manager {

// Thread-safe.
class KeptQuotas {
 public:
  // Borrows all. Without journals nothing is kept.
  KeptQuotas(cache::TenantQuotas* quotas, std::vector<ManagerJournal*> journals)
      : quotas_(quotas), journals_(std::move(journals)) {}

  // Sets what the journals of the manager before this one have, except for tenants that have a
  // quota already. So those of a file come first, and get their place among the most.
  void Restore(const cache::QuotasByTenant& before);

  // The errors are those of TenantQuotas::Set. The journals have it when this returns.
  absl::Status SetByOperator(const std::string& tenant, const cache::Quota& quota);
  // A file that is read again at the next start sets it, so what an operator set does not return.
  absl::Status SetByFile(const std::string& tenant, const cache::Quota& quota);

  const cache::TenantQuotas& quotas() const { return *quotas_; }

 private:
  // All pools have the same quotas, so the journal of each has them, whichever pools are left.
  void Keep(const std::string& tenant, const cache::Quota& quota);

  cache::TenantQuotas* const quotas_;
  const std::vector<ManagerJournal*> journals_;
  absl::Mutex mu_;  // so that the journals have the quota that was set last
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_KEPT_QUOTAS_H_
