// AccessMetrics reports how many calls a daemon has refused because of their callers.
#ifndef FOLIO_SERVICES_ACCESS_ACCESS_METRICS_H_
#define FOLIO_SERVICES_ACCESS_ACCESS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "services/access/gate.h"

namespace folio::access {

// Thread-safe.
class AccessMetrics : public prometheus::Collectable {
 public:
  // `gate` is borrowed.
  explicit AccessMetrics(const Gate* gate) : gate_(gate) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Gate* const gate_;
};

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_ACCESS_METRICS_H_
