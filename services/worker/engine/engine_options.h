// EngineOptions and EngineCounters are the settings of a step loop, and its statistics.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_ENGINE_OPTIONS_H_
#define FOLIO_SERVICES_WORKER_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>

#include "services/base/geometry.h"
#include "services/worker/engine/scheduler.h"

namespace folio::worker {

struct EngineOptions {
  CacheGeometry geometry;
  uint32_t num_pages = 0;  // of the pool
  TokenBudget token_budget;
  uint32_t max_batch = 64;  // sequences at a time; further requests queue
};

// Since the start.
struct EngineCounters {
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;
  uint64_t decode_tokens = 0;
  double step_seconds = 0;          // in the executor
  double manager_wait_seconds = 0;  // nothing could run because a sequence waited for an answer
  // Now.
  uint32_t running = 0;
  uint32_t queued = 0;
  uint32_t held_pages = 0;  // by the running sequences
  uint32_t pool_pages = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_ENGINE_OPTIONS_H_
