// Pace says how long a measurement will probably take, from those of its kind before it.
#ifndef FOLIO_TESTS_BENCH_PACE_H_
#define FOLIO_TESTS_BENCH_PACE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace folio::bench {

class Pace {
 public:
  // `tokens` are those of all sequences together. Zero before the first measurement.
  absl::Duration Expected(double tokens) const {
    return kCaution * longest_ * std::max(1.0, tokens / tokens_);
  }
  void Note(double tokens, absl::Duration took) {
    if (took <= longest_) return;
    longest_ = took;
    tokens_ = std::max(tokens, 1.0);
  }

 private:
  static constexpr double kCaution = 1.25;  // times do not grow quite evenly
  absl::Duration longest_;
  double tokens_ = 1;  // of the one that took longest
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_PACE_H_
