// OtlpExporter sends spans to a collector by OTLP over gRPC, in batches, on a thread of its own. A
// batch that the collector cannot take for now is sent again after pauses that grow. Meanwhile
// further spans wait in a bounded queue, and are dropped when it is full.
#ifndef FOLIO_SERVICES_TRACING_OTLP_EXPORTER_H_
#define FOLIO_SERVICES_TRACING_OTLP_EXPORTER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/tracing/otlp_messages.h"
#include "services/tracing/span_queue.h"

namespace folio::tracing {

// Tests take other sizes and shorter times.
struct ExporterOptions {
  std::string collector;        // gRPC's target
  size_t most_waiting = 16384;  // spans
  size_t batch = 512;
  absl::Duration delay = absl::Seconds(1);  // until a batch that is not full is sent
  absl::Duration timeout = absl::Seconds(10);
  // Between two tries of a batch: the first pause, and the longest.
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration longest_pause = absl::Seconds(10);
  absl::Duration give_up = absl::Minutes(1);  // on a batch
};

// Spans since the start.
struct ExportCounts {
  uint64_t exported = 0;
  uint64_t queue_full = 0;  // the following were dropped
  uint64_t failed = 0;
  uint64_t rejected = 0;  // by the collector, which took the rest of the batch
  uint64_t failed_calls = 0;
};

// Thread-safe.
class OtlpExporter {
 public:
  OtlpExporter(ExporterOptions options, ProcessInfo process);
  // As Shutdown, without waiting for the collector.
  ~OtlpExporter();
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // Takes the spans of one request. Never waits.
  void Push(std::vector<Span> spans) { queue_.Push(std::move(spans)); }
  // Sends what waits, within that time. Spans that are left then are dropped, and so are those that
  // come later.
  void Shutdown(absl::Duration within) ABSL_LOCKS_EXCLUDED(mutex_);

  ExportCounts counts() const;

 private:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;

  void Run();
  // Sends a batch until the collector has it or there is no hope. False if it was dropped.
  bool Send(const Request& request, size_t spans);
  grpc::Status Call(const Request& request, Response* response) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSent(const Response& response, size_t spans);
  void OnFailure(const grpc::Status& status);
  SteadyTime end() const ABSL_LOCKS_EXCLUDED(mutex_);

  const ExporterOptions options_;
  const ProcessInfo process_;
  const std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::Stub> stub_;
  SpanQueue queue_;
  std::atomic<uint64_t> exported_ = 0, failed_ = 0, rejected_ = 0, failed_calls_ = 0;
  // The thread's: the last call failed, and what the log has told of dropped spans.
  bool failing_ = false;
  uint64_t told_drops_ = 0;
  SteadyTime next_told_ = SteadyTime::InfinitePast();

  mutable absl::Mutex mutex_;
  SteadyTime end_ ABSL_GUARDED_BY(mutex_) = SteadyTime::InfiniteFuture();
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;  // that runs
  SteadyNotification ended_;
  std::thread thread_;
};

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_OTLP_EXPORTER_H_
