// Clock is the source of steady time. Classes get one through their constructors, so that tests
// decide what time it is.
#ifndef FOLIO_SERVICES_BASE_CLOCK_H_
#define FOLIO_SERVICES_BASE_CLOCK_H_

#include "services/base/steady_time.h"

namespace folio {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime Now() const = 0;
};

// The machine's steady clock.
class RealClock final : public Clock {
 public:
  SteadyTime Now() const override { return SteadyNow(); }
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_CLOCK_H_
