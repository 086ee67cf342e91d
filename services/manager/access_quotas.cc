#include "services/manager/access_quotas.h"

#include "services/runtime/logging.h"

namespace folio::manager {
namespace {

cache::Quota QuotaOf(const access::TenantLimits& limits) {
  cache::Quota quota;
  quota.sequences = limits.sequences;
  if (limits.pages.has_value()) quota.pages = PageCount(*limits.pages);
  quota.requests_per_minute = limits.requests_per_minute;
  return quota;
}

}  // namespace

void AccessQuotas::Apply() {
  if (list_ == nullptr) return;
  const auto contents = list_->Current();
  if (contents->version == version_) return;
  const bool first = version_ == 0;
  version_ = contents->version;
  const auto& tenants = contents->rules.tenants;
  for (const std::string& before : tenants_) {
    if (!tenants.contains(before)) (void)quotas_->SetByFile(before, {});
  }
  tenants_.clear();
  for (const auto& [tenant, limits] : tenants) {
    tenants_.push_back(tenant);
    const cache::Quota quota = QuotaOf(limits);
    if (first && !quota.limits()) continue;  // that of an operator may be from before the start
    if (const absl::Status status = quotas_->SetByFile(tenant, quota); !status.ok()) {
      log::Error("a quota of the access file cannot be set",
                 {{"tenant", tenant}, {"reason", status}});
    }
  }
}

}  // namespace folio::manager
