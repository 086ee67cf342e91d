// EventMetrics counts what the manager does, for Prometheus: sequences opened, refused, orphaned
// and claimed, decisions and evictions of each policy, fenced workers, and processes that it ended.
//
// The contents of the pool are in pool_metrics.h. docs/monitoring.md explains each metric.
#ifndef FOLIO_SERVICES_MANAGER_EVENT_METRICS_H_
#define FOLIO_SERVICES_MANAGER_EVENT_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/cache/observer.h"

namespace folio::manager {

// Thread-safe. Labels are names of policies, codes of errors and reasons, so there are few.
class EventMetrics : public cache::CoordinatorObserver {
 public:
  // Every series that needs no policy, and those of each policy, exist from the start with 0, so
  // that a first event is an increase.
  EventMetrics();

  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

  void OnOpened(const std::string& policy) override;
  void OnRefused(const absl::Status& why) override;
  void OnOrphaned(uint32_t sequences) override;
  void OnClaimed() override;
  void OnGivenUp(uint32_t sequences) override;
  void OnOrphansEnded(uint32_t sequences) override;
  void OnDecided(const std::string& policy, absl::Duration took) override;
  void OnEvicted(const std::string& policy, uint64_t pages) override;
  void OnParking(cache::ParkingEvent event, uint64_t swapped_pages) override;
  // `why` is one of the reasons that the log has, such as "lease ran out".
  void OnFenced(absl::string_view why);
  // The manager has ended a process of a fenced worker.
  void OnKilled() { killed_.Increment(); }

 private:
  // The series of one policy. All but the first are null if it evicts nothing.
  struct PolicySeries {
    prometheus::Counter* opened = nullptr;
    prometheus::Counter* evictions = nullptr;
    prometheus::Counter* evicted_pages = nullptr;
    prometheus::Histogram* decisions = nullptr;
  };

  // They are found by name, because looking them up by their labels allocates, and they are counted
  // under the coordinator's lock. Makes those of a policy that is new, such as kv_crush over
  // another base.
  PolicySeries SeriesOf(const std::string& policy, bool evicts = true) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& opened_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Family<prometheus::Counter>& evictions_;
  prometheus::Family<prometheus::Counter>& evicted_pages_;
  prometheus::Family<prometheus::Counter>& fenced_;
  prometheus::Family<prometheus::Histogram>& decisions_;
  prometheus::Counter& orphaned_;
  prometheus::Counter& claimed_;
  prometheus::Counter& given_up_;
  prometheus::Counter& orphans_ended_;
  prometheus::Counter& killed_;
  prometheus::Counter& parked_;
  // The pages of a swap have the label direction, "out" or "in".
  prometheus::Counter& swapped_out_;
  prometheus::Counter& swapped_in_;
  prometheus::Family<prometheus::Counter>& swapped_pages_;
  absl::Mutex mu_;
  std::map<std::string, PolicySeries> policies_ ABSL_GUARDED_BY(mu_);
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_EVENT_METRICS_H_
