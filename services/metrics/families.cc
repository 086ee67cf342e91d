#include "services/metrics/families.h"

#include <cstddef>
#include <limits>
#include <utility>

namespace folio::metrics {
namespace {

prometheus::ClientMetric Metric(const Sample& sample, prometheus::MetricType type) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = sample.value;
  } else {
    metric.gauge.value = sample.value;
  }
  return metric;
}

prometheus::MetricFamily Family(std::string name, std::string help, prometheus::MetricType type,
                                const std::vector<Sample>& samples) {
  prometheus::MetricFamily family{std::move(name), std::move(help), type, {}};
  for (const Sample& sample : samples) family.metric.push_back(Metric(sample, type));
  return family;
}

}  // namespace

prometheus::MetricFamily GaugeFamily(std::string name, std::string help,
                                     const std::vector<Sample>& samples) {
  return Family(std::move(name), std::move(help), prometheus::MetricType::Gauge, samples);
}

prometheus::MetricFamily CounterFamily(std::string name, std::string help,
                                       const std::vector<Sample>& samples) {
  return Family(std::move(name), std::move(help), prometheus::MetricType::Counter, samples);
}

prometheus::MetricFamily HistogramFamily(std::string name, std::string help,
                                         const std::vector<double>& bounds,
                                         const std::vector<Distribution>& distributions) {
  prometheus::MetricFamily family =
      Family(std::move(name), std::move(help), prometheus::MetricType::Histogram, {});
  for (const Distribution& one : distributions) {
    prometheus::ClientMetric metric;
    for (const auto& [label, value] : one.labels) metric.label.push_back({label, value});
    uint64_t count = 0;
    for (size_t at = 0; at < one.counts.size(); ++at) {
      count += one.counts[at];
      const double bound =
          at < bounds.size() ? bounds[at] : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({count, bound});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = one.sum;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry,
                                                  const std::string& name,
                                                  const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Labels With(prometheus::Labels labels, const std::string& name,
                        const std::string& value) {
  labels[name] = value;
  return labels;
}

}  // namespace folio::metrics
