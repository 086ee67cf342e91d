#include "services/manager/kept_quotas.h"

#include <utility>

namespace folio::manager {

KeptQuotas::KeptQuotas(cache::TenantQuotas* quotas, std::vector<ManagerJournal*> journals,
                       const cache::QuotasByTenant& before)
    : quotas_(quotas), journals_(std::move(journals)) {
  // There is room for them, because they were set before.
  for (const auto& [tenant, quota] : before) {
    (void)quotas_->Set(tenant, quota);
    if (journals_.size() > 1) Keep(tenant, quota);  // one of them may be new
  }
}

void KeptQuotas::Keep(const std::string& tenant, const cache::Quota& quota) {
  for (ManagerJournal* journal : journals_) {
    journal->OnQuota(tenant, quota);
    journal->files().Flush();
  }
}

absl::Status KeptQuotas::SetByOperator(const std::string& tenant, const cache::Quota& quota) {
  absl::MutexLock lock(&mu_);
  absl::Status status = quotas_->Set(tenant, quota);
  if (status.ok()) Keep(tenant, quota);
  return status;
}

absl::Status KeptQuotas::SetByFile(const std::string& tenant, const cache::Quota& quota) {
  absl::MutexLock lock(&mu_);
  absl::Status status = quotas_->Set(tenant, quota);
  if (status.ok()) Keep(tenant, {});
  return status;
}

}  // namespace folio::manager
