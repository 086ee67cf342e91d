#include "services/metrics/connection_metrics.h"

#include "services/metrics/families.h"

namespace folio::metrics {

std::vector<prometheus::MetricFamily> ConnectionMetrics::Collect() const {
  const ConnectionLimit::Counts now = connections_->counts();
  return {GaugeFamily("folio:connections", "Connections of gRPC clients that are open.",
                      {{static_cast<double>(now.open), {}}}),
          GaugeFamily("folio:max_connections",
                      "The most connections that may be open, from --max_connections.",
                      {{static_cast<double>(connections_->most()), {}}}),
          CounterFamily("folio:connections_refused_total",
                        "Connections that were closed at once because the most were open.",
                        {{static_cast<double>(now.refused), {}}}),
          CounterFamily("folio:accept_failures_total",
                        "Failed tries to accept a connection, for lack of descriptors or memory.",
                        {{static_cast<double>(now.accept_failures), {}}})};
}

}  // namespace folio::metrics
