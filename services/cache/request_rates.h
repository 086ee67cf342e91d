// RequestRates bounds how many requests of each tenant begin in a minute. Each tenant has a bucket
// that holds as many as it may have in a minute and fills steadily, so a tenant that was idle may
// begin them all at once. It is the generic cell rate algorithm of ATM networks (ITU-T I.371).
//
// A request that waits for room is asked for again and again. It counts once, when it begins to
// wait.
//
// Not thread-safe.
#ifndef FOLIO_SERVICES_CACHE_REQUEST_RATES_H_
#define FOLIO_SERVICES_CACHE_REQUEST_RATES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/base/steady_time.h"

namespace folio::cache {

class RequestRates {
 public:
  // So many waiting requests are remembered. Older ones count again.
  static constexpr size_t kMostWaiting = 4096;

  // Borrows the clock.
  explicit RequestRates(const Clock* clock) : clock_(clock) {}

  // How long the request must stay away: not at all if its tenant's bucket has room, or if it has
  // been counted and waits. `per_minute` is at least 1, and `key` tells requests apart.
  absl::Duration UntilNext(absl::string_view tenant, uint32_t per_minute,
                           absl::string_view key) const;
  // The tenant's bucket is full from now on.
  void Forget(absl::string_view tenant) { full_at_.erase(tenant); }
  // The request has begun, or waits from now on.
  void Count(absl::string_view tenant, uint32_t per_minute, absl::string_view key, bool waits);

 private:
  const Clock* const clock_;
  absl::flat_hash_map<std::string, SteadyTime> full_at_;  // when each bucket is full again
  absl::flat_hash_set<std::string> waiting_;
  std::deque<std::string> in_order_;  // those of waiting_, and some that have begun, oldest first
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_REQUEST_RATES_H_
