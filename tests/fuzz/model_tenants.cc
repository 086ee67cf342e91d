#include "tests/fuzz/model_tenants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace folio::cache {

void ModelTenants::Set(const std::string& tenant, const Quota& quota) {
  Quota& mine = quotas_[tenant];
  if (mine.requests_per_minute != quota.requests_per_minute) buckets_.erase(tenant);
  mine = quota;
}

absl::Duration ModelTenants::LevelOf(const std::string& tenant, SteadyTime now) const {
  const auto it = buckets_.find(tenant);
  if (it == buckets_.end()) return absl::ZeroDuration();
  return std::max(it->second.level - (now - it->second.since), absl::ZeroDuration());
}

std::string ModelTenants::Name(const OpenRequest& request) {
  if (!request.metadata.resume_token.empty()) return request.metadata.resume_token;
  return absl::StrCat(request.worker.value(), "/", request.prompt.size(), "/",
                      request.max_new_tokens.value(), "/", request.tenant);
}

bool ModelTenants::Refuses(const OpenRequest& request, SteadyTime now) const {
  const auto it = quotas_.find(request.tenant);
  if (it == quotas_.end()) return false;
  const Quota& quota = it->second;
  uint64_t sequences = 1;
  uint64_t pages = model_.WorstCase(model_.Opening(request));
  for (const auto& [id, other] : model_.sequences) {
    if (other.tenant != request.tenant) continue;
    ++sequences;
    pages += model_.WorstCase(other);
  }
  if (quota.sequences.has_value() && sequences > *quota.sequences) return true;
  if (quota.pages.has_value() && pages > quota.pages->value()) return true;
  if (!quota.requests_per_minute.has_value() || waiting_.contains(Name(request))) return false;
  const absl::Duration part = absl::Minutes(1) / *quota.requests_per_minute;
  return LevelOf(request.tenant, now) + part > absl::Minutes(1);
}

void ModelTenants::Count(const OpenRequest& request, bool waits, SteadyTime now) {
  const auto it = quotas_.find(request.tenant);
  if (it == quotas_.end() || !it->second.requests_per_minute.has_value()) return;
  const std::string name = Name(request);
  if (waiting_.contains(name)) {
    if (!waits) waiting_.erase(name);
    return;
  }
  if (waits) waiting_.insert(name);
  const absl::Duration part = absl::Minutes(1) / *it->second.requests_per_minute;
  buckets_[request.tenant] = {LevelOf(request.tenant, now) + part, now};
}

}  // namespace folio::cache
