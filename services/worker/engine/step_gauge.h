// StepGauge tells other threads how far the step loop has come: its turns, its steps, and the step
// that the device has at the moment.
//
// It consists of atomics alone. A step loop that hangs may hold any lock, and the threads that
// notice it (the watchdog, the manager link, metrics) must not wait for that lock.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_STEP_GAUGE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_STEP_GAUGE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "services/base/step_progress.h"

namespace folio::worker {

// StepInFlight is a step that the device has not finished.
struct StepInFlight {
  uint64_t number = 0;  // from 1, since the process started
  uint32_t rows = 0;    // tokens
  absl::Duration age;
};

// StepRecord is how large and how long steps were, since the process started.
struct StepRecord {
  uint32_t most_rows = 0;  // 0 before a step has ended
  absl::Duration longest;  // with the time that a step waited for the one before it
};

// One step loop at a time writes it, and any thread may read it. It outlives the step loops of one
// process, so its counts grow over all managers.
class StepGauge {
 public:
  // For the step loop. It is watched from BeginLoop to EndLoop, which comes after its executor is
  // destroyed, because that waits for the device too.
  void BeginLoop();
  void EndLoop() { loop_runs_ = false; }
  // Several times a second while it is not in a step, also if there is nothing to do.
  void OnTurn() { ++turns_; }
  // Before a step is given to the executor, and after it was collected. Steps are collected in the
  // order in which they were enqueued.
  void OnEnqueue(uint32_t rows);
  void OnCollected();

  // For any thread. A reader may see a step that ends meanwhile, so a value may be one step old.
  bool loop_runs() const { return loop_runs_; }
  uint64_t turns() const { return turns_; }
  // The oldest one.
  std::optional<StepInFlight> in_flight() const;
  StepProgress progress() const;
  StepRecord record() const;

 private:
  // More steps than a device has at a time (see Executor::pipeline_depth).
  static constexpr uint64_t kMostInFlight = 4;

  struct Step {
    std::atomic<uint32_t> rows = 0;
    std::atomic<int64_t> enqueued_ns = 0;  // of the steady clock
  };

  std::atomic<bool> loop_runs_ = false;
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<uint64_t> enqueued_ = 0;
  std::atomic<uint64_t> collected_ = 0;
  std::array<Step, kMostInFlight> steps_;  // by number
  std::atomic<uint32_t> most_rows_ = 0;    // of steps that have ended
  std::atomic<int64_t> longest_ns_ = 0;    // likewise
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_STEP_GAUGE_H_
