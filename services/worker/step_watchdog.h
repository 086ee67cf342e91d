// StepWatchdog ends the process when the step loop hangs, for example because a GPU never finishes
// a step.
//
// The manager cannot notice it. Another thread sends the heartbeats, so that a long step does not
// cost the lease, and they continue when a step never ends. Once the process has ended, the manager
// gives its sequences to another worker.
//
// The loop hangs when it makes no turn (see StepGauge) for the whole timeout. After half of it the
// worker is not healthy any more: new requests go elsewhere, and a step that ends after all makes
// it healthy again. Half leaves as much time for that as has passed already.
//
// Time counts only while the watchdog runs too. If the whole process stood still (SIGSTOP, a
// debugger, a paused machine), the loop is not late when it continues.
#ifndef FOLIO_SERVICES_WORKER_STEP_WATCHDOG_H_
#define FOLIO_SERVICES_WORKER_STEP_WATCHDOG_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "services/worker/engine/step_gauge.h"

namespace folio::worker {

// The exit code of a process whose step loop hung.
inline constexpr int kExitStepHangs = 3;

// StepTimeout is how long the loop may stand still. It is `least`, unless steps may need more.
//
// No step of a GPU does. A CPU with few cores needs minutes for the first chunk of a model of 70
// billion parameters, before the step loop knows what a chunk costs, or when --prefill_chunk fixes
// its size, and while the weights are read from a disk. Nothing tells such a step from one that
// hangs. So the timeout of the first step is `most`, and later it is five times that of the longest
// step. A step that is larger than all before may take longer in proportion.
struct StepTimeout {
  absl::Duration least;  // 0 watches nothing
  absl::Duration most = least;

  // For what the loop does at the moment.
  absl::Duration Now(const StepGauge& gauge) const;
};

class StepWatchdog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : uint8_t { kProgressing, kLate, kHangs };

  // Borrows the gauge. `end` is called when the loop hangs, half a second after the log says so.
  // The default ends the process with kExitStepHangs and without destructors, which would wait for
  // the device.
  StepWatchdog(StepTimeout timeout, const StepGauge* gauge, std::function<void()> end = nullptr);
  ~StepWatchdog();
  StepWatchdog(const StepWatchdog&) = delete;
  StepWatchdog& operator=(const StepWatchdog&) = delete;

  // Starts the thread that looks at the loop. Once.
  void Start();

  // False from half of the timeout on. Thread-safe.
  bool progressing() const { return state_ == State::kProgressing; }
  // Logs what stands still, if anything does. Thread-safe.
  void LogStandstill() const;

  // Looks at the loop once. The thread does so every `interval`; tests call it instead.
  State Look(Time now);
  absl::Duration interval() const { return interval_; }

 private:
  void Run();

  const StepTimeout timeout_;
  const absl::Duration interval_;  // between two looks
  const StepGauge* const gauge_;
  const std::function<void()> end_;
  std::atomic<State> state_ = State::kProgressing;

  // The thread's.
  std::optional<Time> looked_;
  uint64_t turns_ = 0;       // at that time
  absl::Duration standing_;  // for how long the loop has made no turn

  // A steady clock's wait, which Abseil's mutex does not have.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_STEP_WATCHDOG_H_
