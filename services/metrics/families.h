// These functions make metric families of values that are read when Prometheus asks for them.
// Counters makes families of values that are counted as they happen.
#ifndef FOLIO_SERVICES_METRICS_FAMILIES_H_
#define FOLIO_SERVICES_METRICS_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

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

// A family of counters that `registry` owns.
prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry,
                                                  const std::string& name, const std::string& help);

// `labels` and one more.
prometheus::Labels With(prometheus::Labels labels, const std::string& name,
                        const std::string& value);

}  // namespace folio::metrics

#endif  // FOLIO_SERVICES_METRICS_FAMILIES_H_
