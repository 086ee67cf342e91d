#include "services/worker/serving_metrics.h"

#include "services/metrics/families.h"

namespace folio::worker {

std::vector<prometheus::MetricFamily> ServingMetrics::Collect() const {
  const EngineCounters now = serving_->counters();
  const prometheus::Labels model = {{"model_name", model_name_}};
  std::vector<prometheus::MetricFamily> families;
  const auto gauge = [&](const char* name, const char* help, double value) {
    families.push_back(metrics::GaugeFamily(name, help, {{value, model}}));
  };
  const auto counter = [&](const char* name, const char* help, double value) {
    families.push_back(metrics::CounterFamily(name, help, {{value, model}}));
  };
  gauge("folio:serving", "1 while the worker takes requests, else 0.", serving_->serving() ? 1 : 0);
  gauge("folio:num_requests_running", "Requests that have pages, or ask the manager for them.",
        now.running);
  gauge("folio:num_requests_waiting", "Requests that wait because --max_batch others run.",
        now.queued);
  gauge("folio:kv_cache_usage_perc",
        "Share of the pool's pages that this worker's sequences hold, from 0 to 1. The manager "
        "reports the share of all workers.",
        now.pool_pages == 0 ? 0.0 : static_cast<double>(now.held_pages) / now.pool_pages);
  counter("folio:prompt_tokens_total", "Prompt tokens computed.",
          static_cast<double>(now.prompt_tokens));
  counter("folio:steps_total", "Forward passes.", static_cast<double>(now.steps));
  counter("folio:step_seconds_total", "Time that the step loop spent on forward passes.",
          now.step_seconds);
  counter("folio:manager_wait_seconds_total",
          "Time in which nothing could run because running sequences waited for the manager.",
          now.manager_wait_seconds);
  return families;
}

}  // namespace folio::worker
