// Requests that begin in an episode, or wait, or are beyond the quota of their tenant.
#include <string>

#include "services/base/check.h"
#include "tests/fuzz/fuzz_episode.h"

namespace folio::cache {

std::string Episode::AnyTenant() { return std::string(1, static_cast<char>('a' + Pick(3))); }

void Episode::SetQuota() {
  Quota quota;
  if (OneIn(4)) quota.sequences = Pick(6);
  if (OneIn(4)) quota.pages = PageCount(Pick(2 * pages_));
  if (OneIn(4)) quota.requests_per_minute = 1 + Pick(60);
  const std::string tenant = AnyTenant();
  FOLIO_CHECK(harness_.quotas.Set(tenant, quota).ok());
  tenants_.Set(tenant, quota);
}

std::string Episode::Open() {
  const OpenRequest request = RandomOpen();
  model_.Heard(request.worker);
  const absl::StatusOr<Opened> opened = harness_.coordinator->Open(request);
  absl::StatusCode expected = model_.ExpectOpen(request);
  const bool fits = expected == absl::StatusCode::kOk;
  const bool can_wait = fits || expected == absl::StatusCode::kResourceExhausted;
  const bool over_quota = can_wait && tenants_.Refuses(request, harness_.clock.Now());
  if (over_quota) expected = absl::StatusCode::kResourceExhausted;
  std::string wrong = Expect(expected, opened.status(), "Open");
  if (over_quota) {
    coverage_.over_quota += fits ? 1 : 0;
    return wrong;
  }
  if (absl::IsResourceExhausted(opened.status()) && model_.DidNotOpen(request)) {
    tenants_.Count(request, /*waits=*/true, harness_.clock.Now());
    ++coverage_.waits;
  }
  if (!wrong.empty() || !opened.ok()) return wrong;
  tenants_.Count(request, /*waits=*/false, harness_.clock.Now());
  coverage_.orphans_in_the_way += opened->ended.size();
  return model_.DidOpen(request, *opened);
}

}  // namespace folio::cache
