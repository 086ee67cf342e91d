#include "services/cache/request_rates.h"

#include <algorithm>

namespace folio::cache {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);

}  // namespace

absl::Duration RequestRates::UntilNext(absl::string_view tenant, uint32_t per_minute,
                                       absl::string_view key) const {
  if (waiting_.contains(key)) return absl::ZeroDuration();
  const auto found = full_at_.find(tenant);
  if (found == full_at_.end()) return absl::ZeroDuration();
  // A part of the bucket as large as one request must have filled.
  const absl::Duration missing = found->second - clock_->Now();
  return std::max(missing - (kMinute - kMinute / per_minute), absl::ZeroDuration());
}

void RequestRates::Count(absl::string_view tenant, uint32_t per_minute, absl::string_view key,
                         bool waits) {
  const bool counted = waiting_.contains(key);
  if (counted && !waits) waiting_.erase(key);
  if (counted) return;
  if (waits) {
    waiting_.emplace(key);
    in_order_.emplace_back(key);
    if (in_order_.size() > kMostWaiting) {
      waiting_.erase(in_order_.front());
      in_order_.pop_front();
    }
  }
  const SteadyTime now = clock_->Now();
  auto found = full_at_.find(tenant);
  if (found == full_at_.end()) {
    // A full bucket is as one that was never used.
    absl::erase_if(full_at_, [now](const auto& one) { return one.second <= now; });
    found = full_at_.try_emplace(tenant, now).first;
  }
  found->second = std::max(found->second, now) + kMinute / per_minute;
}

}  // namespace folio::cache
