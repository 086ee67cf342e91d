// PoolMetrics tells Prometheus what each pool holds at the moment: pages by state, sequences by
// state, attached workers. It reads them when it is asked.
#ifndef FOLIO_SERVICES_MANAGER_POOL_METRICS_H_
#define FOLIO_SERVICES_MANAGER_POOL_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "services/manager/served_pools.h"

namespace folio::manager {

// Thread-safe.
class PoolMetrics : public prometheus::Collectable {
 public:
  // Borrows the pools. `names` gives each sample the label "pool".
  PoolMetrics(const ServedPools* pools, bool names) : pools_(pools), names_(names) {}

  // Without the metrics of a pool until a worker has attached.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const ServedPools* const pools_;
  const bool names_;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_METRICS_H_
