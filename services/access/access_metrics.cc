#include "services/access/access_metrics.h"

#include "services/metrics/families.h"

namespace folio::access {

std::vector<prometheus::MetricFamily> AccessMetrics::Collect() const {
  const Gate::Refusals refusals = gate_->refusals();
  return {metrics::CounterFamily(
      "folio:calls_refused_total",
      "Calls that were refused because their caller was not known or had not the right.",
      {{static_cast<double>(refusals.unauthenticated), {{"reason", "unauthenticated"}}},
       {static_cast<double>(refusals.denied), {{"reason", "permission_denied"}}}})};
}

}  // namespace folio::access
