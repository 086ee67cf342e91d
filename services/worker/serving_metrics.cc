#include "services/worker/serving_metrics.h"

#include <optional>

#include "services/base/steady_time.h"
#include "services/metrics/families.h"
#include "services/worker/engine/step_times.h"

namespace folio::worker {

namespace {

prometheus::MetricFamily StepTimesFamily(const StepTimes& times, const prometheus::Labels& model) {
  static constexpr const char* kNames[kStepPhases] = {"prefill", "decode", "mixed"};
  std::vector<metrics::Distribution> phases;
  for (size_t i = 0; i < kStepPhases; ++i) {
    const StepTimes::Phase& phase = times.phases[i];
    phases.push_back({{phase.counts.begin(), phase.counts.end()},
                      phase.seconds,
                      metrics::With(model, "phase", kNames[i])});
  }
  return metrics::HistogramFamily(
      "folio:step_duration_seconds",
      "Time of a step, by what it computes: prompts (prefill), tokens of answers (decode), or both "
      "(mixed).",
      {StepTimes::kBounds.begin(), StepTimes::kBounds.end()}, phases);
}

}  // namespace

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
  gauge("folio:serving", "1 while the worker takes requests and its steps end, else 0.",
        serving_->serving() ? 1 : 0);
  gauge("folio:num_requests_running", "Requests that have pages, or ask the manager for them.",
        now.running);
  gauge("folio:num_requests_waiting", "Requests that wait for a place or for room in the pool.",
        now.queued);
  const std::optional<SteadyTime> oldest = now.oldest_waiting;
  gauge("folio:oldest_waiting_seconds",
        "Age of the oldest request that waits for a place or for pages, or 0 if none waits.",
        oldest.has_value() ? absl::ToDoubleSeconds(SteadyNow() - *oldest) : 0);
  gauge("folio:num_requests_paused",
        "Running requests that stand still because their clients do not read.", now.paused);
  gauge("folio:num_requests_parked",
        "Running requests that gave their pages back and wait to be computed again.", now.parked);
  counter("folio:num_preemptions_total",
          "Times that a request gave its pages back because the pool ran dry.",
          static_cast<double>(now.preemptions));
  gauge("folio:kv_cache_usage_perc",
        "Share of the pool's pages that this worker's sequences hold, from 0 to 1. The manager "
        "reports the share of all workers.",
        now.pool_pages == 0 ? 0.0 : static_cast<double>(now.held_pages) / now.pool_pages);
  counter("folio:prompt_tokens_total", "Prompt tokens computed.",
          static_cast<double>(now.prompt_tokens));
  counter("folio:steps_total", "Forward passes.", static_cast<double>(now.steps));
  const std::optional<StepInFlight> step = serving_->gauge().in_flight();
  gauge("folio:step_in_flight_seconds",
        "Age of the oldest step that has not ended, or 0 if none runs.",
        step.has_value() ? absl::ToDoubleSeconds(step->age) : 0);
  counter("folio:step_seconds_total", "Time that the step loop spent on forward passes.",
          now.step_seconds);
  families.push_back(StepTimesFamily(now.step_times, model));
  counter("folio:manager_wait_seconds_total",
          "Time in which nothing could run because running sequences waited for the manager.",
          now.manager_wait_seconds);
  return families;
}

}  // namespace folio::worker
