// SequenceTrace is a list of what happened to a sequence between its client's events: when the
// manager's plans came and were carried out, and when it was parked. Only a request that is traced
// has one.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_TRACE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"

namespace folio::worker {

// Thread-safe, because a plan may be carried out after the client has its answer.
class SequenceTrace {
 public:
  // Only the first ones are noted, because a long answer has thousands.
  static constexpr size_t kMostPlans = 64;
  static constexpr size_t kMostParks = 32;

  struct Plan {
    PlanEpoch epoch;
    bool compaction = false;
    uint32_t freed_pages = 0;
    std::optional<SteadyTime> asked;  // the commit that made it due was sent
    SteadyTime received;
    std::optional<SteadyTime> done;  // the manager was told that it is carried out
  };
  struct Park {
    SteadyTime time;
    bool parked = false;  // otherwise it got its pages back
  };
  struct Notes {
    std::vector<Plan> plans;
    uint32_t all_plans = 0;  // also those that were not noted
    std::vector<Park> parks;
    uint32_t all_parks = 0;
  };

  // The manager hears that pages were filled, or that a prompt is at a stop.
  void OnAsked(SteadyTime now) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnPlan(PlanEpoch epoch, bool compaction, uint32_t freed_pages, SteadyTime received)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnAcknowledged(PlanEpoch epoch, SteadyTime now) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnPark(bool parked, SteadyTime now) ABSL_LOCKS_EXCLUDED(mutex_);

  Notes notes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::optional<SteadyTime> asked_ ABSL_GUARDED_BY(mutex_);
  Notes notes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_TRACE_H_
