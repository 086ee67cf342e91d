// StepWatchdog ends the process when the step loop hangs, for example because a GPU never finishes
// a step.
//
// The manager cannot notice it. Another thread sends the heartbeats, so that a long step does not
// cost the lease, and they continue when a step never ends. Once the process has ended, the manager
// gives its sequences to another worker.
//
// The loop hangs when it makes no turn for the whole timeout (see StepGauge). After half of it the
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

class StepWatchdog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : uint8_t { kProgressing, kLate, kHangs };

  // With a timeout of 0 it watches nothing. Borrows the gauge. `end` is called when the loop hangs,
  // half a second after the log says so. The default ends the process with kExitStepHangs and
  // without destructors, which would wait for the device.
  StepWatchdog(absl::Duration timeout, const StepGauge* gauge, std::function<void()> end = nullptr);
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

  const absl::Duration timeout_;
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
