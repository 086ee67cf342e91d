#include "services/tracing/otlp_exporter.h"

#include <pthread.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "services/grpc/grpc_deadline.h"
#include "services/grpc/grpc_status.h"
#include "services/runtime/logging.h"

namespace folio::tracing {
namespace {

constexpr absl::Duration kTellDropsEvery = absl::Minutes(1);
constexpr int kConnectTimeoutMs = 5000;

using opentelemetry::proto::collector::trace::v1::TraceService;

std::unique_ptr<TraceService::Stub> StubOf(const ExporterOptions& options) {
  grpc::ChannelArguments arguments;
  // A collector that comes back is found by the next try, and gRPC's own pauses grow to minutes.
  const auto pause = static_cast<int>(absl::ToInt64Milliseconds(options.first_pause));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, pause);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, pause);
  return TraceService::NewStub(
      grpc::CreateCustomChannel(options.collector, grpc::InsecureChannelCredentials(), arguments));
}

// As OTLP's specification has it. A collector that has too much to do says when to come again.
bool MayTryAgain(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::StrContains(status.error_details(), "google.rpc.RetryInfo");
    default:
      return false;
  }
}

// Processes that have lost one collector do not all come back in the same moment.
absl::Duration Spread(absl::Duration pause) {
  thread_local std::minstd_rand generator(std::random_device{}());
  return pause * std::uniform_real_distribution<double>(0.8, 1.2)(generator);
}

}  // namespace

OtlpExporter::OtlpExporter(ExporterOptions options, ProcessInfo process)
    : options_(std::move(options)),
      process_(std::move(process)),
      stub_(StubOf(options_)),
      queue_(options_.most_waiting, options_.batch),
      thread_([this] { Run(); }) {}

OtlpExporter::~OtlpExporter() {
  Shutdown(absl::ZeroDuration());
  thread_.join();
}

void OtlpExporter::Shutdown(absl::Duration within) {
  {
    const absl::MutexLock lock(&mutex_);
    end_ = std::min(end_, SteadyNow() + within);
  }
  queue_.End();
  if (ended_.WaitFor(within)) return;
  const absl::MutexLock lock(&mutex_);
  if (call_ != nullptr) call_->TryCancel();
}

ExportCounts OtlpExporter::counts() const {
  return {.exported = exported_,
          .queue_full = queue_.dropped(),
          .failed = failed_,
          .rejected = rejected_,
          .failed_calls = failed_calls_};
}

SteadyTime OtlpExporter::end() const {
  const absl::MutexLock lock(&mutex_);
  return end_;
}

void OtlpExporter::Run() {
  pthread_setname_np(pthread_self(), "traces");
  uint64_t left = 0;
  for (;;) {
    const std::vector<Span> spans = queue_.Take(options_.delay);
    if (spans.empty()) break;
    // After one failure at the end nothing more is tried.
    const bool sent = left == 0 && Send(ToRequest(process_, spans, WallTime()), spans.size());
    if (sent) continue;
    failed_ += spans.size();
    if (end() < SteadyTime::InfiniteFuture()) left += spans.size();
  }
  if (left > 0) {
    log::Warning("spans of traces were dropped at the end",
                 {{"collector", options_.collector}, {"spans", left}});
  }
  ended_.Notify();
}

bool OtlpExporter::Send(const Request& request, size_t spans) {
  const SteadyTime give_up = SteadyNow() + options_.give_up;
  absl::Duration pause = options_.first_pause;
  bool last = false;
  for (;;) {
    if (SteadyNow() >= end()) return false;
    Response response;
    const grpc::Status status = Call(request, &response);
    if (status.ok()) {
      OnSent(response, spans);
      return true;
    }
    OnFailure(status);
    const SteadyTime next = SteadyNow() + Spread(pause);
    if (last || !MayTryAgain(status) || next >= give_up) return false;
    // At the end the collector may be back already.
    last = queue_.AwaitEnd(next);
    pause = std::min(2 * pause, options_.longest_pause);
  }
}

grpc::Status OtlpExporter::Call(const Request& request, Response* response) {
  grpc::ClientContext context;
  {
    const absl::MutexLock lock(&mutex_);
    context.set_deadline(GrpcDeadline(std::min(SteadyNow() + options_.timeout, end_)));
    call_ = &context;
  }
  grpc::Status status = stub_->Export(&context, request, response);
  const absl::MutexLock lock(&mutex_);
  call_ = nullptr;
  return status;
}

void OtlpExporter::OnSent(const Response& response, size_t spans) {
  const auto refused = static_cast<uint64_t>(std::clamp<int64_t>(
      response.partial_success().rejected_spans(), 0, static_cast<int64_t>(spans)));
  exported_ += spans - refused;
  if (rejected_.fetch_add(refused) == 0 && refused > 0) {
    log::Warning("the collector rejects spans of traces",
                 {{"collector", options_.collector},
                  {"spans", refused},
                  {"reason", response.partial_success().error_message()}});
  }
  const uint64_t drops = queue_.dropped() + failed_;
  const SteadyTime now = SteadyNow();
  if (std::exchange(failing_, false)) {
    log::Info("traces are exported again",
              {{"collector", options_.collector}, {"dropped_spans", drops - told_drops_}});
  } else if (drops > told_drops_ && now >= next_told_) {
    next_told_ = now + kTellDropsEvery;
    log::Warning("spans of traces were dropped, because the collector is too slow",
                 {{"collector", options_.collector}, {"spans", drops - told_drops_}});
  } else {
    return;
  }
  told_drops_ = drops;
}

void OtlpExporter::OnFailure(const grpc::Status& status) {
  ++failed_calls_;
  if (std::exchange(failing_, true)) return;
  log::Warning("traces cannot be exported",
               {{"collector", options_.collector}, {"reason", FromGrpcStatus(status)}});
}

}  // namespace folio::tracing
