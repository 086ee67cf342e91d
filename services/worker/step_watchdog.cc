#include "services/worker/step_watchdog.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "services/runtime/logging.h"

namespace folio::worker {
namespace {

// The log gets so much time before the process ends.
constexpr absl::Duration kGrace = absl::Milliseconds(500);

// If this thread hangs as well, for example because the step loop keeps the lock of the memory
// allocator, the kernel ends the process after so many seconds.
constexpr unsigned kLastResort = 2;

// A step may take so many times the longest one before it.
constexpr double kLonger = 5;

// A twentieth of the timeout, so that the end comes hardly later than that.
absl::Duration IntervalFor(absl::Duration timeout) {
  return std::clamp(timeout / 20, absl::Milliseconds(10), absl::Milliseconds(500));
}

void Log(StepWatchdog::State state, const std::optional<StepInFlight>& step,
         absl::Duration timeout) {
  const bool hangs = state == StepWatchdog::State::kHangs;
  const log::Level level = hangs ? log::Level::kError : log::Level::kWarning;
  if (state == StepWatchdog::State::kProgressing) return;
  if (step.has_value()) {
    log::Write(level, hangs ? "a step hangs, the process ends" : "a step takes very long",
               {{"step", step->number},
                {"rows", step->rows},
                {"age", step->age},
                {"step_timeout", timeout}});
  } else {
    log::Write(level,
               hangs ? "the step loop hangs between two steps, the process ends"
                     : "the step loop stands still between two steps",
               {{"step_timeout", timeout}});
  }
}

}  // namespace

absl::Duration StepTimeout::Now(const StepGauge& gauge) const {
  // In this order: a step that has just ended is in the record.
  const std::optional<StepInFlight> step = gauge.in_flight();
  const StepRecord before = gauge.record();
  if (before.most_rows == 0) return step.has_value() ? most : least;
  const double rows = step.has_value() ? step->rows : 0;
  return std::clamp(kLonger * before.longest * std::max(rows / before.most_rows, 1.0), least, most);
}

StepWatchdog::StepWatchdog(StepTimeout timeout, const StepGauge* gauge, std::function<void()> end)
    : timeout_(timeout),
      interval_(IntervalFor(timeout.least)),
      gauge_(gauge),
      end_(std::move(end)) {}

StepWatchdog::~StepWatchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StepWatchdog::Start() {
  if (timeout_.least > absl::ZeroDuration()) thread_ = std::thread([this] { Run(); });
}

StepWatchdog::State StepWatchdog::Look(Time now) {
  const uint64_t turns = gauge_->turns();
  const bool stands = looked_.has_value() && gauge_->loop_runs() && turns == turns_;
  if (stands) {
    // A look that comes much later than it should shows that the process as a whole stood still.
    standing_ += std::min(absl::FromChrono(now - *looked_), 2 * interval_);
  } else {
    standing_ = absl::ZeroDuration();
  }
  looked_ = now;
  turns_ = turns;
  const absl::Duration timeout = timeout_.Now(*gauge_);
  const State state = standing_ >= timeout       ? State::kHangs
                      : standing_ >= timeout / 2 ? State::kLate
                                                 : State::kProgressing;
  state_ = state;
  return state;
}

void StepWatchdog::LogStandstill() const {
  Log(state_, gauge_->in_flight(), timeout_.Now(*gauge_));
}

// Until the loop hangs, this thread neither logs nor allocates: a loop that stands still may keep
// the locks of both.
void StepWatchdog::Run() {
  pthread_setname_np(pthread_self(), "step-watchdog");
  const auto wait = [this](absl::Duration time) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoNanoseconds(time), [this] { return stop_; });
  };
  while (!wait(interval_)) {
    if (Look(std::chrono::steady_clock::now()) == State::kHangs) break;
  }
  if (state_ != State::kHangs) return;
  if (!end_) alarm(kLastResort);
  std::thread([step = gauge_->in_flight(), timeout = timeout_.Now(*gauge_)] {
    Log(State::kHangs, step, timeout);
  }).detach();
  wait(kGrace);
  if (!end_) _exit(kExitStepHangs);
  end_();
}

}  // namespace folio::worker
