// ProcessMetrics reports the processor time, memory and descriptors of this process, with the names
// that Prometheus' own libraries use, the build of the program, and lines missing in its log.
#ifndef FOLIO_SERVICES_METRICS_PROCESS_METRICS_H_
#define FOLIO_SERVICES_METRICS_PROCESS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace folio::metrics {

// Thread-safe.
class ProcessMetrics : public prometheus::Collectable {
 public:
  explicit ProcessMetrics(std::string program) : program_(std::move(program)) {}

  // Reads /proc. A value that cannot be read is left out.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string program_;
};

}  // namespace folio::metrics

#endif  // FOLIO_SERVICES_METRICS_PROCESS_METRICS_H_
