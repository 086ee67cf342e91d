#include "services/cache/tenant_quotas.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace folio::cache {

std::string QuotaText(const Quota& quota) {
  if (!quota.limits()) return "no quota";
  std::vector<std::string> parts;
  const auto add = [&parts](uint32_t count, const char* thing) {
    parts.push_back(absl::StrCat(count, " ", thing, count == 1 ? "" : "s"));
  };
  if (quota.sequences.has_value()) add(*quota.sequences, "sequence");
  if (quota.pages.has_value()) add(quota.pages->value(), "page");
  if (quota.requests_per_minute.has_value()) {
    add(*quota.requests_per_minute, "request");
    parts.back() += " a minute";
  }
  const std::string last = std::move(parts.back());
  parts.pop_back();
  return absl::StrCat("at most ", absl::StrJoin(parts, ", "), parts.empty() ? "" : " and ", last);
}

std::string QuotaOwner(absl::string_view tenant) {
  return tenant.empty() ? "requests without a tenant"
                        : absl::StrCat("tenant \"", absl::Utf8SafeCEscape(tenant), "\"");
}

absl::Status TenantQuotas::Set(const std::string& tenant, const Quota& quota) {
  absl::MutexLock lock(&mu_);
  const auto before = quotas_.find(tenant);
  if (before == quotas_.end() || before->second.requests_per_minute != quota.requests_per_minute) {
    rates_.Forget(tenant);
  }
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

absl::Status TenantQuotas::CheckRate(absl::string_view tenant, absl::string_view key) const {
  absl::MutexLock lock(&mu_);
  const auto found = quotas_.find(tenant);
  if (found == quotas_.end() || !found->second.requests_per_minute.has_value()) {
    return absl::OkStatus();
  }
  const absl::Duration wait = rates_.UntilNext(tenant, *found->second.requests_per_minute, key);
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("quota of ", QuotaOwner(tenant), " (", QuotaText(found->second),
                   "): the next request may come in ",
                   absl::FormatDuration(absl::Ceil(wait, absl::Milliseconds(1)))));
}

void TenantQuotas::CountRequest(absl::string_view tenant, absl::string_view key, bool waits) const {
  absl::MutexLock lock(&mu_);
  const auto found = quotas_.find(tenant);
  if (found == quotas_.end() || !found->second.requests_per_minute.has_value()) return;
  rates_.Count(tenant, *found->second.requests_per_minute, key, waits);
}

}  // namespace folio::cache
