#include "services/manager/kept_quotas.h"

namespace folio::manager {

void KeptQuotas::Restore(const cache::QuotasByTenant& before) {
  absl::MutexLock lock(&mu_);
  for (const auto& [tenant, quota] : before) {
    if (quotas_->Of(tenant).limits() || !quotas_->Set(tenant, quota).ok()) continue;
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
