#include "services/manager/kept_quotas.h"

namespace folio::manager {

KeptQuotas::KeptQuotas(cache::TenantQuotas* quotas, ManagerJournal* journal,
                       const cache::QuotasByTenant& before)
    : quotas_(quotas), journal_(journal) {
  // There is room for them, because they were set before.
  for (const auto& [tenant, quota] : before) (void)quotas_->Set(tenant, quota);
}

absl::Status KeptQuotas::SetByOperator(const std::string& tenant, const cache::Quota& quota) {
  absl::MutexLock lock(&mu_);
  absl::Status status = quotas_->Set(tenant, quota);
  if (!status.ok() || journal_ == nullptr) return status;
  journal_->OnQuota(tenant, quota);
  journal_->files().Flush();
  return status;
}

absl::Status KeptQuotas::SetByFile(const std::string& tenant, const cache::Quota& quota) {
  absl::MutexLock lock(&mu_);
  absl::Status status = quotas_->Set(tenant, quota);
  if (!status.ok() || journal_ == nullptr) return status;
  journal_->OnQuota(tenant, {});
  journal_->files().Flush();
  return status;
}

}  // namespace folio::manager
