// Collector is an OpenTelemetry collector in this process, which answers as a test wants.
#ifndef FOLIO_TESTS_COMMON_COLLECTOR_H_
#define FOLIO_TESTS_COMMON_COLLECTOR_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "services/base/steady_time.h"
#include "services/tracing/span.h"

namespace folio::tracing {

namespace otlp = opentelemetry::proto;

inline constexpr absl::Duration kPatience = absl::Seconds(60);

inline void AwaitTrue(const std::function<bool()>& ready) {
  const SteadyTime deadline = SteadyNow() + kPatience;
  while (!ready()) {
    ASSERT_LT(SteadyNow(), deadline);
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// Thread-safe.
class Collector : public otlp::collector::trace::v1::TraceService::Service {
 public:
  using Request = otlp::collector::trace::v1::ExportTraceServiceRequest;
  using Response = otlp::collector::trace::v1::ExportTraceServiceResponse;

  explicit Collector(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Collector() override {
    Answer(grpc::Status::OK);  // nothing stands still
    server_->Shutdown();
  }

  grpc::Status Export(grpc::ServerContext* context, const Request* request,
                      Response* response) override {
    ++calls;
    while (silent && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    const absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    requests_.push_back(*request);
    response->mutable_partial_success()->set_rejected_spans(rejects);
    return grpc::Status::OK;
  }

  // From now on.
  void Answer(const grpc::Status& status) {
    silent = false;
    const absl::MutexLock lock(&mutex_);
    status_ = status;
  }
  std::vector<Request> requests() {
    const absl::MutexLock lock(&mutex_);
    return requests_;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& request : requests()) {
      for (const auto& span : request.resource_spans(0).scope_spans(0).spans()) {
        names.push_back(span.name());
      }
    }
    return names;
  }

  std::atomic<int> calls = 0;
  std::atomic<bool> silent = false;  // no call is answered
  std::atomic<int> rejects = 0;      // spans of each call

 private:
  absl::Mutex mutex_;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

inline Span Named(const std::string& name) {
  Span span;
  span.context.own = {NewTraceId(), NewSpanId(), /*sampled=*/true, ""};
  span.name = name;
  span.start = span.end = SteadyNow();
  return span;
}

inline std::vector<Span> Spans(size_t count) {
  std::vector<Span> spans;
  for (size_t i = 0; i < count; ++i) spans.push_back(Named(absl::StrCat("span", i)));
  return spans;
}

}  // namespace folio::tracing

#endif  // FOLIO_TESTS_COMMON_COLLECTOR_H_
