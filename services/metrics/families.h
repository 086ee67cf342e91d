// These functions make metric families of values that are read when Prometheus asks for them.
// Counters makes families of values that are counted as they happen.
#ifndef FOLIO_SERVICES_METRICS_FAMILIES_H_
#define FOLIO_SERVICES_METRICS_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstdint>
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

// Distribution is what a histogram says of one series.
struct Distribution {
  std::vector<uint64_t> counts;  // by bucket, each without those below it
  double sum = 0;                // of the observed values
  prometheus::Labels labels;
};

// `bounds` are the buckets' upper bounds, ascending. Each distribution has one count more than
// there are bounds, for what is above the last.
prometheus::MetricFamily HistogramFamily(std::string name, std::string help,
                                         const std::vector<double>& bounds,
                                         const std::vector<Distribution>& distributions);

// A family of counters that `registry` owns.
prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry,
                                                  const std::string& name, const std::string& help);

// `labels` and one more.
prometheus::Labels With(prometheus::Labels labels, const std::string& name,
                        const std::string& value);

}  // namespace folio::metrics

#endif  // FOLIO_SERVICES_METRICS_FAMILIES_H_
