// GatewayMetrics counts requests and measures them for Prometheus. GatewayGauges reports
// connections and workers as they are.
#ifndef FOLIO_SERVICES_GATEWAY_GATEWAY_METRICS_H_
#define FOLIO_SERVICES_GATEWAY_GATEWAY_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/http/connection.h"
#include "services/gateway/request_record.h"
#include "services/gateway/workers/worker_set.h"

namespace folio::gateway {

// Thread-safe.
class GatewayMetrics {
 public:
  GatewayMetrics();

  void OnEnd(const RequestRecord& record);
  // A stream continues at another worker.
  void OnResumed() { resumed_.Increment(); }
  // A stream's sequence was gone, and is computed again.
  void OnReplayed() { replayed_.Increment(); }
  // A stream stands still because its client does not read.
  void OnPaused() { paused_.Increment(); }

  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

 private:
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generated_tokens_;
  prometheus::Counter& resumed_;
  prometheus::Counter& replayed_;
  prometheus::Counter& paused_;
  prometheus::Counter& failed_streams_;
  prometheus::Histogram& first_token_;
  prometheus::Histogram& whole_request_;
};

// Thread-safe.
class GatewayGauges : public prometheus::Collectable {
 public:
  // Both are borrowed.
  GatewayGauges(const ConnectionCounts* connections, const WorkerSet* workers)
      : connections_(connections), workers_(workers) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const ConnectionCounts* const connections_;
  const WorkerSet* const workers_;
};

// All of it in the text format of Prometheus.
std::string MetricsText(const std::vector<std::shared_ptr<prometheus::Collectable>>& sources);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_GATEWAY_METRICS_H_
