#include "services/tracing/wall_time.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace folio::tracing {
namespace {

// The thread may be stopped between the readings, so the closest of some pairs counts.
constexpr int kTries = 5;

}  // namespace

WallTime::WallTime() {
  absl::Duration closest = absl::InfiniteDuration();
  for (int i = 0; i < kTries; ++i) {
    const SteadyTime before = SteadyNow();
    const absl::Duration wall = absl::Now() - absl::UnixEpoch();
    const absl::Duration took = SteadyNow() - before;
    if (took >= closest) continue;
    closest = took;
    ahead_ = wall - (before + took / 2).since_zero();
  }
}

uint64_t WallTime::Nanos(SteadyTime moment) const {
  const int64_t nanos = absl::ToInt64Nanoseconds(moment.since_zero() + ahead_);
  return static_cast<uint64_t>(std::max<int64_t>(nanos, 0));
}

}  // namespace folio::tracing
