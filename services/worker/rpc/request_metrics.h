// RequestMetrics counts requests and measures how long clients wait, for Prometheus. Names and
// buckets are vLLM's where they mean the same, so that dashboards made for it can read them.
#ifndef FOLIO_SERVICES_WORKER_RPC_REQUEST_METRICS_H_
#define FOLIO_SERVICES_WORKER_RPC_REQUEST_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "services/worker/engine/events.h"

namespace folio::worker {

// Thread-safe.
class RequestMetrics {
 public:
  explicit RequestMetrics(const std::string& model_name);

  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

  // A call ends because its client does not read.
  void OnSlowClient() { slow_clients_.Increment(); }

 private:
  friend class RequestRecorder;

  prometheus::Labels FailureLabels(absl::StatusCode code, const std::string& reason) const;

  const prometheus::Labels model_;
  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& succeeded_;
  prometheus::Family<prometheus::Counter>& failed_;
  prometheus::Counter& generated_tokens_;
  prometheus::Counter& resumed_;
  prometheus::Counter& replayed_;
  prometheus::Counter& slow_clients_;
  prometheus::Histogram& first_token_;
  prometheus::Histogram& between_tokens_;
  prometheus::Histogram& whole_request_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& prompt_lengths_;
  prometheus::Histogram& output_lengths_;
};

enum class RequestKind : uint8_t {
  kGenerate,
  kResume,  // continues a sequence of another worker, so its waiting times say nothing
  kReplay,  // computes a sequence again that is gone, so its times are not those of an answer
  kScore,   // generates nothing
};

// RequestRecorder is one request, from its arrival to its end. Its caller makes calls one after
// another.
class RequestRecorder {
 public:
  // The request arrives now. Borrows the metrics.
  RequestRecorder(RequestMetrics* metrics, RequestKind kind);

  void OnEvent(const Event& event);
  void OnEnd(const absl::Status& status);

 private:
  using Clock = std::chrono::steady_clock;

  // It waits no longer. Only the first call counts.
  void OnWaited();
  void OnTokens(const TokenChunk& chunk);
  void OnFinished(const Finished& finished);

  RequestMetrics* const metrics_;
  const RequestKind kind_;
  const Clock::time_point arrival_;
  bool waited_ = false;
  std::optional<Clock::time_point> newest_;  // when the newest token came
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_REQUEST_METRICS_H_
