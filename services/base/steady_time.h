// SteadyTime is a moment of the steady clock, which counts up at an even pace and cannot be set.
// Leases, deadlines and durations use it. An absl::Time is a time of day: NTP and administrators
// set that clock forward and back, so it serves logs alone. The two types do not convert, so code
// that mixes them does not compile.
//
// The clock is CLOCK_MONOTONIC. It stands still while the machine is suspended, as CLOCK_BOOTTIME
// does not. That is wanted here: a suspended manager and its workers sleep together, and a lease
// that ran on meanwhile would end for every worker before one could send a heartbeat. It is also
// the only steady clock that futexes and condition variables can wait for.
#ifndef FOLIO_SERVICES_BASE_STEADY_TIME_H_
#define FOLIO_SERVICES_BASE_STEADY_TIME_H_

#include <chrono>
#include <compare>

#include "absl/time/time.h"

namespace folio {

// A plain value. Its zero is arbitrary, so moments of different machines or of different boots
// cannot be compared. Infinite moments behave as those of absl::Time.
class SteadyTime {
 public:
  SteadyTime() = default;  // the clock's zero
  explicit SteadyTime(absl::Duration since_zero) : since_zero_(since_zero) {}
  static SteadyTime InfiniteFuture() { return SteadyTime(absl::InfiniteDuration()); }
  static SteadyTime InfinitePast() { return SteadyTime(-absl::InfiniteDuration()); }

  absl::Duration since_zero() const { return since_zero_; }

  SteadyTime& operator+=(absl::Duration by) {
    since_zero_ += by;
    return *this;
  }
  friend SteadyTime operator+(SteadyTime time, absl::Duration by) { return time += by; }
  friend SteadyTime operator-(SteadyTime time, absl::Duration by) { return time += -by; }
  friend absl::Duration operator-(SteadyTime end, SteadyTime start) {
    return end.since_zero_ - start.since_zero_;
  }
  friend bool operator==(SteadyTime a, SteadyTime b) { return a.since_zero_ == b.since_zero_; }
  friend std::strong_ordering operator<=>(SteadyTime a, SteadyTime b) {
    if (a.since_zero_ < b.since_zero_) return std::strong_ordering::less;
    return a == b ? std::strong_ordering::equal : std::strong_ordering::greater;
  }

 private:
  absl::Duration since_zero_;
};

// Thread-safe.
inline SteadyTime SteadyNow() {
  return SteadyTime(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_STEADY_TIME_H_
