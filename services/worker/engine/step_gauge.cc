#include "services/worker/engine/step_gauge.h"

#include <algorithm>

#include "services/base/steady_time.h"

namespace folio::worker {
namespace {

int64_t SteadyNanoseconds() { return absl::ToInt64Nanoseconds(SteadyNow().since_zero()); }

}  // namespace

void StepGauge::BeginLoop() {
  OnTurn();  // the time since the last loop ended is not this one's
  loop_runs_ = true;
}

void StepGauge::OnEnqueue(uint32_t rows) {
  const uint64_t number = enqueued_ + 1;
  Step& step = steps_[number % kMostInFlight];
  step.rows = rows;
  step.enqueued_ns = SteadyNanoseconds();
  enqueued_ = number;
}

void StepGauge::OnCollected() {
  if (const std::optional<StepInFlight> step = in_flight()) {
    longest_ns_ = std::max<int64_t>(longest_ns_, absl::ToInt64Nanoseconds(step->age));
    most_rows_ = std::max<uint32_t>(most_rows_, step->rows);
  }
  ++collected_;
}

std::optional<StepInFlight> StepGauge::in_flight() const {
  const uint64_t number = collected_ + 1;
  if (enqueued_ < number) return std::nullopt;
  const Step& step = steps_[number % kMostInFlight];
  const int64_t age = std::max<int64_t>(SteadyNanoseconds() - step.enqueued_ns, 0);
  return StepInFlight{number, step.rows, absl::Nanoseconds(age)};
}

StepRecord StepGauge::record() const { return {most_rows_, absl::Nanoseconds(longest_ns_.load())}; }

StepProgress StepGauge::progress() const {
  StepProgress progress;
  progress.steps_done = collected_;
  if (const std::optional<StepInFlight> step = in_flight()) {
    // A step that has just begun is in flight too.
    const int64_t age = std::clamp<int64_t>(absl::ToInt64Milliseconds(step->age), 1, UINT32_MAX);
    progress.in_flight_ms = static_cast<uint32_t>(age);
  }
  return progress;
}

}  // namespace folio::worker
