// Urgency says how soon a request is due when requests wait for pages: its priority, and how long
// it has waited.
//
// Each step of priority is worth kPriorityStep of waiting. So a request of low priority that has
// waited long enough comes before newer ones of high priority, and none waits forever. Among the
// sequences that run and have to give pages back the priority alone counts (see
// services/cache/preemption.h).
#ifndef FOLIO_SERVICES_BASE_URGENCY_H_
#define FOLIO_SERVICES_BASE_URGENCY_H_

#include <cstdint>

#include "absl/time/time.h"
#include "services/base/steady_time.h"

namespace folio {

inline constexpr absl::Duration kPriorityStep = absl::Seconds(10);
// Priorities lie between -kMaxPriority and kMaxPriority.
inline constexpr int32_t kMaxPriority = 100;

// A plain value.
struct Urgency {
  int32_t priority = 0;   // lower ones come first, as in vLLM
  absl::Duration waited;  // since the request arrived

  // The earlier, the sooner the request gets pages.
  SteadyTime Due(SteadyTime now) const { return now - waited + priority * kPriorityStep; }
  friend bool operator==(const Urgency&, const Urgency&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_URGENCY_H_
