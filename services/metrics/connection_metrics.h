// ConnectionMetrics reports the connections of a daemon's clients.
#ifndef FOLIO_SERVICES_METRICS_CONNECTION_METRICS_H_
#define FOLIO_SERVICES_METRICS_CONNECTION_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "services/runtime/connection_limit.h"

namespace folio::metrics {

// Thread-safe.
class ConnectionMetrics : public prometheus::Collectable {
 public:
  // `connections` is borrowed.
  explicit ConnectionMetrics(ConnectionLimit* connections) : connections_(connections) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  ConnectionLimit* const connections_;
};

}  // namespace folio::metrics

#endif  // FOLIO_SERVICES_METRICS_CONNECTION_METRICS_H_
