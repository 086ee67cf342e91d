#include "services/gateway/gateway_metrics.h"

#include <prometheus/text_serializer.h>

#include "absl/strings/str_cat.h"
#include "services/metrics/families.h"

namespace folio::gateway {
namespace {

using metrics::CounterFamily;
using metrics::Counters;
using metrics::GaugeFamily;
using metrics::Sample;

prometheus::Histogram& Seconds(prometheus::Registry& registry, const std::string& name,
                               const std::string& help) {
  static const prometheus::Histogram::BucketBoundaries kBounds = {
      0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640};
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, kBounds);
}

}  // namespace

GatewayMetrics::GatewayMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      requests_(Counters(*registry_, "folio:gateway_requests_total",
                         "Requests that have ended, by endpoint and HTTP status.")),
      prompt_tokens_(Counters(*registry_, "folio:gateway_prompt_tokens_total",
                              "Tokens of the prompts of requests that have ended.")
                         .Add({})),
      generated_tokens_(Counters(*registry_, "folio:gateway_generation_tokens_total",
                                 "Tokens that workers generated for requests that have ended.")
                            .Add({})),
      resumed_(Counters(*registry_, "folio:gateway_resumed_total",
                        "Streams that another worker continued.")
                   .Add({})),
      replayed_(Counters(*registry_, "folio:gateway_replayed_total",
                         "Streams whose sequence was gone and was computed again.")
                    .Add({})),
      paused_(Counters(*registry_, "folio:gateway_paused_total",
                       "Times that a stream stood still because its client did not read.")
                  .Add({})),
      failed_streams_(Counters(*registry_, "folio:gateway_failed_streams_total",
                               "Streams that failed after they had begun, with status 200.")
                          .Add({})),
      first_token_(Seconds(*registry_, "folio:gateway_time_to_first_token_seconds",
                           "Time from a request's arrival to its first token.")),
      whole_request_(Seconds(*registry_, "folio:gateway_request_seconds",
                             "Time from the arrival of a request for text to its end.")) {}

void GatewayMetrics::OnEnd(const RequestRecord& record) {
  requests_.Add({{"endpoint", record.endpoint}, {"status", absl::StrCat(record.status)}})
      .Increment();
  if (record.choices == 0) return;
  if (record.status == 200 && !record.reason.empty()) failed_streams_.Increment();
  prompt_tokens_.Increment(static_cast<double>(record.prompt_tokens));
  generated_tokens_.Increment(static_cast<double>(record.generated_tokens));
  whole_request_.Observe(absl::ToDoubleSeconds(record.total));
  if (record.first_token.has_value()) {
    first_token_.Observe(absl::ToDoubleSeconds(*record.first_token));
  }
}

std::vector<prometheus::MetricFamily> GatewayGauges::Collect() const {
  const auto number = [](auto value) {
    return std::vector<Sample>{{static_cast<double>(value), {}}};
  };
  std::vector<prometheus::MetricFamily> families = {
      GaugeFamily("folio:gateway_connections", "Connections of clients that are open.",
                  number(connections_->open.load())),
      GaugeFamily("folio:gateway_requests_running", "Requests that are being answered.",
                  number(connections_->answering.load())),
      CounterFamily("folio:gateway_connections_refused_total",
                    "Connections that were closed at once because --max_connections were open.",
                    number(connections_->refused.load())),
      CounterFamily("folio:gateway_malformed_total", "Requests that were not HTTP or too large.",
                    number(connections_->malformed.load())),
      CounterFamily("folio:gateway_clients_left_total",
                    "Clients that left before they had their answer.",
                    number(connections_->left.load()))};
  std::vector<Sample> serving, running;
  for (const WorkerView& worker : workers_->View()) {
    const prometheus::Labels labels = {{"worker", worker.address}};
    serving.push_back({worker.serving ? 1.0 : 0.0, labels});
    running.push_back({static_cast<double>(worker.running), labels});
  }
  families.push_back(
      GaugeFamily("folio:gateway_worker_serving", "Whether a worker accepts requests.", serving));
  families.push_back(GaugeFamily("folio:gateway_worker_requests",
                                 "Requests that a worker has from this gateway.", running));
  return families;
}

std::string MetricsText(const std::vector<std::shared_ptr<prometheus::Collectable>>& sources) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& source : sources) {
    for (prometheus::MetricFamily& family : source->Collect()) {
      families.push_back(std::move(family));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace folio::gateway
