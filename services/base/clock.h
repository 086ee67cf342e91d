// Clock is the source of time. Classes get one through their constructors, so that tests decide
// what time it is.
#ifndef FOLIO_SERVICES_BASE_CLOCK_H_
#define FOLIO_SERVICES_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace folio {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_CLOCK_H_
