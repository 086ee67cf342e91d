#include "services/manager/quota_message.h"

#include "absl/strings/str_cat.h"
#include "services/access/access_rules.h"

namespace folio::manager {

v1::Quota QuotaToProto(const cache::Quota& quota) {
  v1::Quota message;
  if (quota.sequences.has_value()) message.set_sequences(*quota.sequences);
  if (quota.pages.has_value()) message.set_pages(quota.pages->value());
  if (quota.requests_per_minute.has_value()) {
    message.set_requests_per_minute(*quota.requests_per_minute);
  }
  return message;
}

absl::StatusOr<cache::Quota> QuotaFromProto(const v1::Quota& message) {
  cache::Quota quota;
  if (message.has_sequences()) quota.sequences = message.sequences();
  if (message.has_pages()) quota.pages = PageCount(message.pages());
  if (!message.has_requests_per_minute()) return quota;
  const uint32_t per_minute = message.requests_per_minute();
  if (per_minute == 0 || per_minute > access::kMaxRequestsPerMinute) {
    return absl::InvalidArgumentError(absl::StrCat("quota.requests_per_minute: is ", per_minute,
                                                   "; give a number from 1 to ",
                                                   access::kMaxRequestsPerMinute));
  }
  quota.requests_per_minute = per_minute;
  return quota;
}

}  // namespace folio::manager
