// ManualClock is a clock that tests set.
#ifndef FOLIO_TESTS_COMMON_MANUAL_CLOCK_H_
#define FOLIO_TESTS_COMMON_MANUAL_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/base/steady_time.h"

namespace folio::testing {

// Thread-safe.
class ManualClock final : public Clock {
 public:
  SteadyTime Now() const override {
    absl::MutexLock lock(&mu_);
    return now_;
  }
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  mutable absl::Mutex mu_;
  SteadyTime now_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_COMMON_MANUAL_CLOCK_H_
