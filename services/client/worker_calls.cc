#include "services/client/worker_calls.h"

#include <grpcpp/support/channel_arguments.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "folio/v1/inference.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "services/client/channel.h"
#include "services/client/running_count.h"
#include "services/client/utf8_check.h"

namespace folio::client {

using folio::v1::Inference;
using grpc::health::v1::Health;

class WorkerCalls::State {
 public:
  explicit State(Endpoint to)
      : endpoint(std::move(to)),
        inference(Inference::NewStub(endpoint.channel)),
        health(Health::NewStub(endpoint.channel)) {}

  const Endpoint endpoint;
  const std::unique_ptr<Inference::Stub> inference;
  const std::unique_ptr<Health::Stub> health;
  RunningCount running;
};

namespace {

// One call, which deletes itself when its answer is there. A channel may not end on a thread of
// gRPC, so nothing of the call refers to it once its answer is taken.
template <typename Request, typename Response>
struct Unary {
  grpc::ClientContext context;
  Request request;
  Response response;
  std::optional<RunningCall> running;
};

// Starts a call with `method` of a stub's callback interface.
template <typename State, typename Interface, typename Request, typename Response>
void Run(State* state, std::type_identity_t<Interface>* callbacks,
         void (Interface::*method)(grpc::ClientContext*, const Request*, Response*,
                                   std::function<void(grpc::Status)>),
         Request request, const CallOptions& options,
         std::function<void(absl::StatusOr<Response>)> done) {
  if (absl::Status status = CheckUtf8(request); !status.ok()) return done(status);
  auto* const call = new Unary<Request, Response>;
  call->request = std::move(request);
  Prepare(state->endpoint, options, &call->context);
  state->running.Begin();
  const auto ended = [state, call, done = std::move(done)](const grpc::Status& status) {
    absl::StatusOr<Response> answer = std::move(call->response);
    if (!status.ok()) answer = FromGrpc(state->endpoint, status);
    delete call;
    done(std::move(answer));
    state->running.End();
  };
  // A context that is cancelled before its call is started ends the call at once.
  call->running.emplace(options.cancellation, &call->context);
  (callbacks->*method)(&call->context, &call->request, &call->response, ended);
}

}  // namespace

WorkerCalls::WorkerCalls(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerCalls::~WorkerCalls() { state_->running.AwaitNone(); }

absl::StatusOr<std::unique_ptr<WorkerCalls>> WorkerCalls::Connect(const std::string& address,
                                                                  const ConnectOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestBackoffMs);
  auto endpoint = client::Connect("worker", address, options, arguments);
  if (!endpoint.ok()) return endpoint.status();
  auto state = std::make_unique<State>(*std::move(endpoint));
  return std::unique_ptr<WorkerCalls>(new WorkerCalls(std::move(state)));
}

void WorkerCalls::Tokenize(folio::v1::TokenizeRequest request, const CallOptions& options,
                           Taker<folio::v1::TokenizeResponse> done) {
  Run(state_.get(), state_->inference->async(), &Inference::Stub::async_interface::Tokenize,
      std::move(request), options, std::move(done));
}

void WorkerCalls::Detokenize(folio::v1::DetokenizeRequest request, const CallOptions& options,
                             Taker<folio::v1::DetokenizeResponse> done) {
  Run(state_.get(), state_->inference->async(), &Inference::Stub::async_interface::Detokenize,
      std::move(request), options, std::move(done));
}

void WorkerCalls::GetModel(const CallOptions& options, Taker<folio::v1::GetModelResponse> done) {
  Run(state_.get(), state_->inference->async(), &Inference::Stub::async_interface::GetModel,
      folio::v1::GetModelRequest(), options, std::move(done));
}

void WorkerCalls::IsServing(const CallOptions& options, Taker<bool> done) {
  using Response = grpc::health::v1::HealthCheckResponse;
  Taker<Response> translated = [done = std::move(done)](const absl::StatusOr<Response>& said) {
    if (!said.ok()) return done(said.status());
    done(said->status() == Response::SERVING);
  };
  Run(state_.get(), state_->health->async(), &Health::Stub::async_interface::Check,
      grpc::health::v1::HealthCheckRequest(), options, std::move(translated));
}

}  // namespace folio::client
