// StepProgress says how far the steps of a worker have come. The worker tells it to its manager in
// each request.
#ifndef FOLIO_SERVICES_BASE_STEP_PROGRESS_H_
#define FOLIO_SERVICES_BASE_STEP_PROGRESS_H_

#include <cstdint>

namespace folio {

struct StepProgress {
  uint64_t steps_done = 0;    // forward passes since the process started
  uint32_t in_flight_ms = 0;  // age of the oldest step that has not ended, 0 if there is none
  friend bool operator==(const StepProgress&, const StepProgress&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_STEP_PROGRESS_H_
