#include "services/manager/restart_metrics.h"

#include <utility>

#include "services/metrics/families.h"

namespace folio::manager {

std::vector<prometheus::MetricFamily> RestartMetrics::Collect() const {
  absl::MutexLock lock(&mu_);
  const auto outcome = [](const char* name, uint64_t sequences) {
    return metrics::Sample{static_cast<double>(sequences), {{"outcome", name}}};
  };
  std::vector<metrics::Sample> seconds;
  const auto until = [&seconds](const char* what, const std::optional<absl::Duration>& time) {
    if (time.has_value()) seconds.push_back({absl::ToDoubleSeconds(*time), {{"until", what}}});
  };
  until("serving", serving_);
  until("memory", memory_);
  return {
      metrics::CounterFamily("folio:restart_sequences_total",
                             "Sequences of the manager before this one, by what became of them.",
                             {outcome("continued", continued_),
                              outcome("computed_again", computed_again_), outcome("lost", lost_)}),
      metrics::CounterFamily("folio:restart_workers_total",
                             "Workers that brought the memory of the pool back.",
                             {{static_cast<double>(workers_), {}}}),
      metrics::GaugeFamily(
          "folio:restart_seconds",
          "Time from the manager's start until it answered, and until the memory of the pool "
          "before it was back or given up.",
          seconds)};
}

void RestartMetrics::OnServing() {
  absl::MutexLock lock(&mu_);
  serving_ = SteadyNow() - begun_;
}

void RestartMetrics::OnRestored(const void* pool, const cache::Restored& restored) {
  absl::MutexLock lock(&mu_);
  awaiting_[pool] = restored.kept;
  computed_again_ += restored.again;
  lost_ += restored.ended;
}

void RestartMetrics::OnLost(size_t sequences) {
  absl::MutexLock lock(&mu_);
  lost_ += sequences;
}

void RestartMetrics::OnMemoryBack(const void* pool, uint32_t workers) {
  absl::MutexLock lock(&mu_);
  continued_ += std::exchange(awaiting_[pool], 0);
  workers_ += workers;
  memory_ = SteadyNow() - begun_;
}

void RestartMetrics::OnMemoryReplaced(const void* pool) {
  absl::MutexLock lock(&mu_);
  computed_again_ += std::exchange(awaiting_[pool], 0);
  memory_ = SteadyNow() - begun_;
}

}  // namespace folio::manager
