// RestartMetrics tells Prometheus how a manager began: how long it took, and what became of the
// sequences that the one before it had.
#ifndef FOLIO_SERVICES_MANAGER_RESTART_METRICS_H_
#define FOLIO_SERVICES_MANAGER_RESTART_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/cache/restoration.h"

namespace folio::manager {

// Thread-safe. Its lock is an innermost one. Times are since it was made.
class RestartMetrics : public prometheus::Collectable {
 public:
  // docs/monitoring.md explains each metric.
  std::vector<prometheus::MetricFamily> Collect() const override;

  // The manager answers.
  void OnServing();
  // The journal of a pool was read, which `pool` tells apart. It is told later
  // how the sequences that have contents fare.
  void OnRestored(const void* pool, const cache::Restored& restored);
  // The journal's pool cannot be continued.
  void OnLost(size_t sequences);
  // The pool's memory is back, from so many workers.
  void OnMemoryBack(const void* pool, uint32_t workers);
  // It does not come back.
  void OnMemoryReplaced(const void* pool);

 private:
  const SteadyTime begun_ = SteadyNow();
  mutable absl::Mutex mu_;
  // Sequences whose pages are not back yet, by pool.
  std::map<const void*, uint32_t> awaiting_ ABSL_GUARDED_BY(mu_);
  uint64_t continued_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t computed_again_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t lost_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t workers_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<absl::Duration> serving_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Duration> memory_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_RESTART_METRICS_H_
