// These functions make metric families of values that are read when Prometheus asks for them.
// Values that are counted as they happen use the classes of prometheus-cpp instead.
#ifndef FOLIO_SERVICES_METRICS_FAMILIES_H_
#define FOLIO_SERVICES_METRICS_FAMILIES_H_

#include <prometheus/labels.h>
#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace folio::metrics {

struct Sample {
  double value = 0;
  prometheus::Labels labels;
};

// A gauge goes up and down. A counter only grows while the process lives, and its name ends with
// "_total".
prometheus::MetricFamily GaugeFamily(std::string name, std::string help,
                                     const std::vector<Sample>& samples);
prometheus::MetricFamily CounterFamily(std::string name, std::string help,
                                       const std::vector<Sample>& samples);

// `labels` and one more.
prometheus::Labels With(prometheus::Labels labels, const std::string& name,
                        const std::string& value);

}  // namespace folio::metrics

#endif  // FOLIO_SERVICES_METRICS_FAMILIES_H_
