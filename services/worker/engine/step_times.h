// StepTimes counts how long steps take, by what they compute.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_STEP_TIMES_H_
#define FOLIO_SERVICES_WORKER_ENGINE_STEP_TIMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace folio::worker {

// A step computes prompts, tokens of running sequences, or both.
enum class StepPhase : uint8_t { kPrefill, kDecode, kMixed };
inline constexpr size_t kStepPhases = 3;

// A plain value.
struct StepTimes {
  // The upper bounds of the buckets, in seconds. One bucket more has what is above the last.
  static constexpr std::array<double, 15> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0};
  struct Phase {
    std::array<uint64_t, kBounds.size() + 1> counts = {};  // by bucket
    double seconds = 0;
  };
  std::array<Phase, kStepPhases> phases;

  void Add(StepPhase phase, absl::Duration took) {
    const double seconds = absl::ToDoubleSeconds(took);
    Phase& of = phases[static_cast<size_t>(phase)];
    const auto* bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
    ++of.counts[static_cast<size_t>(bucket - kBounds.begin())];
    of.seconds += seconds;
  }

  void Add(const StepTimes& other) {
    for (size_t i = 0; i < kStepPhases; ++i) {
      for (size_t at = 0; at <= kBounds.size(); ++at) {
        phases[i].counts[at] += other.phases[i].counts[at];
      }
      phases[i].seconds += other.phases[i].seconds;
    }
  }
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_STEP_TIMES_H_
