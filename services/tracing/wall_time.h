// WallTime turns moments of the steady clock into times of day, which is what traces have.
#ifndef FOLIO_SERVICES_TRACING_WALL_TIME_H_
#define FOLIO_SERVICES_TRACING_WALL_TIME_H_

#include <cstdint>

#include "absl/time/time.h"
#include "services/base/steady_time.h"

namespace folio::tracing {

// A plain value: how far the two clocks are apart. Each batch has its own, so that spans follow a
// clock that is set, and the length of a span is that of the steady clock.
class WallTime {
 public:
  // As the clocks stand now.
  WallTime();

  // Nanoseconds since 1970.
  uint64_t Nanos(SteadyTime moment) const;

 private:
  absl::Duration ahead_;  // of the steady clock
};

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_WALL_TIME_H_
