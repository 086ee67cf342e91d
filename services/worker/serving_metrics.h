// ServingMetrics tells Prometheus what the step loop does: sequences that run and wait, tokens,
// steps, and the pages that it uses. It reads them when it is asked.
#ifndef FOLIO_SERVICES_WORKER_SERVING_METRICS_H_
#define FOLIO_SERVICES_WORKER_SERVING_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "services/worker/serving.h"

namespace folio::worker {

// Thread-safe.
class ServingMetrics : public prometheus::Collectable {
 public:
  // Borrows `serving`.
  ServingMetrics(std::string model_name, const Serving* serving)
      : model_name_(std::move(model_name)), serving_(serving) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string model_name_;
  const Serving* const serving_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_SERVING_METRICS_H_
