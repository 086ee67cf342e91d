#include "services/client/admin_client.h"

#include <grpcpp/support/sync_stream.h>

#include <utility>

#include "folio/v1/admin.grpc.pb.h"
#include "services/client/channel.h"

namespace folio::client {

class AdminClient::State {
 public:
  using Callbacks = folio::v1::Admin::Stub::async_interface;

  explicit State(Endpoint to)
      : endpoint(std::move(to)), stub(folio::v1::Admin::NewStub(endpoint.channel)) {}

  const Endpoint endpoint;
  const std::unique_ptr<folio::v1::Admin::Stub> stub;
};

class EventStream::State {
 public:
  State(Endpoint endpoint, folio::v1::Admin::Stub& stub,
        const folio::v1::WatchEventsRequest& request, const CallOptions& options)
      : endpoint_(std::move(endpoint)) {
    Prepare(options, &context_);
    reader_ = stub.WatchEvents(&context_, request);
    running_.emplace(options.cancellation, &context_);
  }

  ~State() {
    if (ended_) return;
    Cancel();
    while (Next().has_value()) {
    }
  }

  std::optional<folio::v1::WatchEventsResponse> Next() {
    if (ended_) return std::nullopt;
    folio::v1::WatchEventsResponse response;
    if (reader_->Read(&response)) return response;
    status_ = FromGrpc(endpoint_, reader_->Finish());
    running_.reset();
    ended_ = true;
    return std::nullopt;
  }

  const absl::Status& status() const { return status_; }
  void Cancel() { context_.TryCancel(); }

 private:
  const Endpoint endpoint_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<folio::v1::WatchEventsResponse>> reader_;
  std::optional<RunningCall> running_;
  bool ended_ = false;
  absl::Status status_;
};

EventStream::EventStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
EventStream::EventStream(EventStream&& other) noexcept = default;
EventStream& EventStream::operator=(EventStream&& other) noexcept = default;
EventStream::~EventStream() = default;

std::optional<folio::v1::WatchEventsResponse> EventStream::Next() { return state_->Next(); }
absl::Status EventStream::status() const { return state_->status(); }
void EventStream::Cancel() { state_->Cancel(); }

AdminClient::AdminClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
AdminClient::~AdminClient() = default;

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Connect(absl::string_view address,
                                                                  const ConnectOptions& options) {
  absl::StatusOr<Endpoint> endpoint = client::Connect("manager", address, options);
  if (!endpoint.ok()) return endpoint.status();
  return std::unique_ptr<AdminClient>(
      new AdminClient(std::make_unique<State>(*std::move(endpoint))));
}

absl::StatusOr<folio::v1::ListPoolsResponse> AdminClient::ListPools(const CallOptions& options) {
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::ListPools,
                   folio::v1::ListPoolsRequest(), options);
}

absl::StatusOr<folio::v1::ListSequencesResponse> AdminClient::ListSequences(
    const CallOptions& options) {
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::ListSequences,
                   folio::v1::ListSequencesRequest(), options);
}

absl::StatusOr<folio::v1::GetSequenceResponse> AdminClient::GetSequence(
    uint64_t sequence_id, const CallOptions& options) {
  folio::v1::GetSequenceRequest request;
  request.set_sequence_id(sequence_id);
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::GetSequence, request,
                   options);
}

absl::StatusOr<folio::v1::ExplainEvictionResponse> AdminClient::ExplainEviction(
    const folio::v1::ExplainEvictionRequest& request, const CallOptions& options) {
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::ExplainEviction,
                   request, options);
}

absl::StatusOr<folio::v1::GetManagerResponse> AdminClient::GetManager(const CallOptions& options) {
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::GetManager,
                   folio::v1::GetManagerRequest(), options);
}

absl::StatusOr<folio::v1::ListWorkersResponse> AdminClient::ListWorkers(
    const CallOptions& options) {
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::ListWorkers,
                   folio::v1::ListWorkersRequest(), options);
}

EventStream AdminClient::WatchEvents(const folio::v1::WatchEventsRequest& request,
                                     const CallOptions& options) {
  return EventStream(
      std::make_unique<EventStream::State>(state_->endpoint, *state_->stub, request, options));
}

absl::StatusOr<bool> AdminClient::IsServing(const CallOptions& options) {
  return CheckHealth(state_->endpoint, options);
}

}  // namespace folio::client
