// KeptQuotas sets the quotas of tenants, and has those that operators set outlive the manager: the
// journal keeps them for the next one.
#ifndef FOLIO_SERVICES_MANAGER_KEPT_QUOTAS_H_
#define FOLIO_SERVICES_MANAGER_KEPT_QUOTAS_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/cache/tenant_quotas.h"
#include "services/manager/manager_journal.h"

namespace folio::manager {

// Thread-safe.
class KeptQuotas {
 public:
  // Borrows both. `journal` may be null, and then nothing is kept. Sets `before`, which the journal
  // of the manager before this one has.
  KeptQuotas(cache::TenantQuotas* quotas, ManagerJournal* journal,
             const cache::QuotasByTenant& before = {});

  // The errors are those of TenantQuotas::Set. The journal has it when this returns.
  absl::Status SetByOperator(const std::string& tenant, const cache::Quota& quota);
  // A file that is read again at the next start sets it, so what an operator set does not return.
  absl::Status SetByFile(const std::string& tenant, const cache::Quota& quota);

  const cache::TenantQuotas& quotas() const { return *quotas_; }

 private:
  cache::TenantQuotas* const quotas_;
  ManagerJournal* const journal_;
  absl::Mutex mu_;  // so that the journal has the quota that was set last
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_KEPT_QUOTAS_H_
