#include "services/client/streams.h"

#include <grpcpp/alarm.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "folio/v1/inference.grpc.pb.h"
#include "services/client/channel.h"
#include "services/client/resumption.h"
#include "services/client/running_count.h"
#include "services/client/utf8_check.h"
#include "services/grpc/grpc_deadline.h"

namespace folio::client {
namespace {

using folio::v1::GenerateRequest;
using folio::v1::GenerateResponse;
using folio::v1::Inference;

struct Connection {
  Endpoint endpoint;
  std::unique_ptr<Inference::Stub> stub;
};

}  // namespace

class Streams::State {
 public:
  std::vector<std::vector<Connection>> workers;  // by address, constant after Connect

  Connection& Next(size_t worker) {
    std::vector<Connection>& all = workers[worker % workers.size()];
    return all[turn_.fetch_add(1, std::memory_order_relaxed) % all.size()];
  }

  RunningCount running;

 private:
  std::atomic<size_t> turn_ = 0;
};

// A generation, which deletes itself at its end. gRPC calls it on one thread at a time, because an
// attempt begins when the one before has ended.
class Streams::Stream {
 public:
  Stream(State* state, const GenerateRequest& request, size_t worker, StreamListener* listener,
         CallOptions options, ReadGate gate)
      : state_(state),
        worker_(worker),
        listener_(listener),
        options_(std::move(options)),
        gate_(std::move(gate)),
        resumption_(request, options_) {
    state_->running.Begin();
  }

  void Begin(const GenerateRequest& request) {
    if (absl::Status status = CheckUtf8(request); !status.ok()) {
      End(status);
    } else {
      Try(request);
    }
  }

 private:
  class Attempt;
  void Try(const GenerateRequest& request);

  // False if the attempt is of no use.
  bool Take(GenerateResponse* event, SteadyTime arrival) {
    const uint32_t replays = resumption_.replays();
    const bool news = resumption_.Take(event);
    if (resumption_.misunderstood()) return false;
    if (lost_worker_.has_value()) listener_->OnResumed(*std::exchange(lost_worker_, std::nullopt));
    if (resumption_.replays() > replays) listener_->OnReplayed();
    if (news) listener_->OnEvent(*event, arrival);
    return true;
  }

  // The attempt has ended.
  void EndAttempt(const Endpoint& endpoint, absl::Status status) {
    if (status.ok() && !resumption_.finished()) {
      status = absl::InternalError(endpoint.name + " ended the stream without a result");
    }
    const bool cancelled = options_.cancellation.cancelled();
    if (resumption_.Follows(status, cancelled)) {
      if (!lost_worker_.has_value()) lost_worker_ = worker_ % state_->workers.size();
      // An alarm cannot be set again while it rings.
      pause_ = std::make_unique<grpc::Alarm>();
      pause_->Set(GrpcDeadline(SteadyNow() + resumption_.pause()), [this](bool) { TryNext(); });
    } else if (cancelled && !status.ok()) {
      End(absl::CancelledError("the call was cancelled"));
    } else {
      End(resumption_.Ended(std::move(status)));
    }
  }

  void TryNext() {
    if (!resumption_.stays()) ++worker_;  // the one that was lost comes last
    Try(resumption_.NextRequest());
  }

  void End(const absl::Status& status) {
    State* const state = state_;
    listener_->OnEnd(status);
    delete this;
    state->running.End();
  }

  State* const state_;
  size_t worker_;  // modulo the number of addresses
  StreamListener* const listener_;
  const CallOptions options_;
  const ReadGate gate_;
  Resumption resumption_;
  std::optional<size_t> lost_worker_;  // while it looks for another one
  std::unique_ptr<grpc::Alarm> pause_;
};

// One call of Generate, at one worker. It deletes itself when gRPC has no more to say.
class Streams::Stream::Attempt : public grpc::ClientReadReactor<GenerateResponse>,
                                 private ReadGate::Waiter {
 public:
  Attempt(Stream* stream, const Connection& connection)
      : stream_(stream), connection_(connection) {}

  void Start(const GenerateRequest& request) {
    Prepare(connection_.endpoint, stream_->options_, &context_);
    connection_.stub->async()->Generate(&context_, &request, this);
    // Nothing ends the call, and this with it, before it is started.
    running_.emplace(stream_->options_.cancellation, &context_,
                     [this] { stream_->gate_.Release(this); });
    StartRead(&event_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (!stream_->Take(&event_, SteadyNow())) context_.TryCancel();
    // While the gate is closed, no read is under way that would keep the call, and this with it.
    AddHold();
    if (!stream_->gate_.Wait(this)) {
      Continue();
    } else if (stream_->options_.cancellation.cancelled()) {
      stream_->gate_.Release(this);
    }
  }

  void OnDone(const grpc::Status& status) override {
    Stream* const stream = stream_;
    const Connection& connection = connection_;
    const absl::Status said = FromGrpc(connection.endpoint, status);
    delete this;
    stream->EndAttempt(connection.endpoint, said);
  }

 private:
  void Continue() override {
    StartRead(&event_);
    RemoveHold();
  }

  Stream* const stream_;
  const Connection& connection_;
  GenerateResponse event_;
  grpc::ClientContext context_;
  std::optional<RunningCall> running_;
};

void Streams::Stream::Try(const GenerateRequest& request) {
  (new Attempt(this, state_->Next(worker_)))->Start(request);
}

Streams::Streams(std::unique_ptr<State> state) : state_(std::move(state)) {}
Streams::~Streams() { state_->running.AwaitNone(); }

absl::StatusOr<std::unique_ptr<Streams>> Streams::Connect(const std::vector<std::string>& addresses,
                                                          const StreamsOptions& options) {
  if (addresses.empty()) return absl::InvalidArgumentError("no address of a worker is given");
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestBackoffMs);
  auto state = std::make_unique<State>();
  for (const std::string& address : addresses) {
    std::vector<Connection>& connections = state->workers.emplace_back();
    for (size_t i = 0; i < std::max<size_t>(options.connections, 1); ++i) {
      auto endpoint = client::Connect("worker", address, options.connect, arguments);
      if (!endpoint.ok()) return endpoint.status();
      auto stub = Inference::NewStub(endpoint->channel);
      connections.push_back({*std::move(endpoint), std::move(stub)});
    }
  }
  return std::unique_ptr<Streams>(new Streams(std::move(state)));
}

void Streams::Start(const GenerateRequest& request, size_t worker, StreamListener* listener,
                    const CallOptions& options, const ReadGate& gate) {
  (new Stream(state_.get(), request, worker, listener, options, gate))->Begin(request);
}

}  // namespace folio::client
