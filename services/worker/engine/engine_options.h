// EngineOptions and EngineCounters are the settings of a step loop, and its statistics.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_ENGINE_OPTIONS_H_
#define FOLIO_SERVICES_WORKER_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "services/base/geometry.h"
#include "services/base/steady_time.h"
#include "services/worker/engine/scheduler.h"
#include "services/worker/engine/step_times.h"

namespace folio::worker {

struct EngineOptions {
  CacheGeometry geometry;
  uint32_t num_pages = 0;   // of the pool
  uint32_t swap_slots = 0;  // of its swap memory; with 0 no sequence is swapped
  // The model's. The records of claimed sequences are checked against them, so with 0 no sequence
  // can be claimed.
  uint32_t vocab = 0;
  uint32_t context = 0;
  TokenBudget token_budget;
  uint32_t max_batch = 64;  // sequences at a time; further requests wait
  // How long a request may wait before it ends.
  absl::Duration queue_timeout = absl::InfiniteDuration();
  // How long a client may not read before its sequence is parked for requests that wait.
  absl::Duration park_paused_after = absl::Seconds(2);
};

// Since the start.
struct EngineCounters {
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;
  uint64_t decode_tokens = 0;
  double step_seconds = 0;          // in the executor
  StepTimes step_times;             // each from the end of the step before it, if that is later
  double manager_wait_seconds = 0;  // nothing could run because a sequence waited for an answer
  uint64_t preemptions = 0;  // times that the manager had a sequence parked for lack of pages
  // Now.
  uint32_t running = 0;
  uint32_t queued = 0;
  std::optional<SteadyTime> oldest_waiting;  // arrival of the oldest request without pages
  uint32_t parked = 0;      // of those that run, because they wait to be computed again
  uint32_t paused = 0;      // of those that run, because their clients do not read
  uint32_t held_pages = 0;  // by the running sequences
  uint32_t pool_pages = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_ENGINE_OPTIONS_H_
