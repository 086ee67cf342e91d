#include "services/cache/tenant_quotas.h"

#include "absl/strings/str_cat.h"

namespace folio::cache {

std::string QuotaText(const Quota& quota) {
  if (!quota.limits()) return "no quota";
  std::string text = "at most ";
  const auto add = [&text](uint32_t count, const char* thing) {
    absl::StrAppend(&text, count, " ", thing, count == 1 ? "" : "s");
  };
  if (quota.sequences.has_value()) add(*quota.sequences, "sequence");
  if (quota.sequences.has_value() && quota.pages.has_value()) text += " and ";
  if (quota.pages.has_value()) add(quota.pages->value(), "page");
  return text;
}

absl::Status TenantQuotas::Set(const std::string& tenant, const Quota& quota) {
  absl::MutexLock lock(&mu_);
  if (!quota.limits()) {
    quotas_.erase(tenant);
    return absl::OkStatus();
  }
  if (quotas_.size() >= kMost && !quotas_.contains(tenant)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant: ", kMost, " tenants have a quota, which is the most; take another ",
                     "one's away first"));
  }
  quotas_[tenant] = quota;
  return absl::OkStatus();
}

Quota TenantQuotas::Of(absl::string_view tenant) const {
  absl::MutexLock lock(&mu_);
  const auto found = quotas_.find(tenant);
  return found == quotas_.end() ? Quota{} : found->second;
}

QuotasByTenant TenantQuotas::all() const {
  absl::MutexLock lock(&mu_);
  return quotas_;
}

}  // namespace folio::cache
