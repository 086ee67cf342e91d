#include "services/client/admin_client.h"

#include <grpcpp/support/sync_stream.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/client/admin_client_state.h"
#include "services/client/channel.h"

namespace folio::client {

// A server without Admin answers as one whose version lacks the call. Its health tells them apart.
absl::Status ExplainUnimplemented(const Endpoint& endpoint, absl::Status status,
                                  const CallOptions& options) {
  if (!absl::IsUnimplemented(status)) return status;
  const auto health = CheckHealth(endpoint, options, folio::v1::Admin::service_full_name());
  if (!absl::IsNotFound(health.status())) return status;
  return absl::UnimplementedError(
      absl::StrCat("the ", endpoint.name,
                   " serves no Admin at this address; give one of --admin_listen of folio-manager, "
                   "or of --listen where it has no --admin_listen"));
}

class EventStream::State {
 public:
  State(Endpoint endpoint, folio::v1::Admin::Stub& stub,
        const folio::v1::WatchEventsRequest& request, const CallOptions& options)
      : endpoint_(std::move(endpoint)), options_(options) {
    Prepare(endpoint_, options_, &context_);
    reader_ = stub.WatchEvents(&context_, request);
    running_.emplace(options_.cancellation, &context_);
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
    status_ = ExplainUnimplemented(endpoint_, FromGrpc(endpoint_, reader_->Finish()), options_);
    running_.reset();
    ended_ = true;
    return std::nullopt;
  }

  const absl::Status& status() const { return status_; }
  void Cancel() { context_.TryCancel(); }

 private:
  const Endpoint endpoint_;
  const CallOptions options_;
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
  return state_->Call(&State::Callbacks::ListPools, folio::v1::ListPoolsRequest(), options);
}

absl::StatusOr<folio::v1::ListSequencesResponse> AdminClient::ListSequences(
    const CallOptions& options) {
  return state_->Call(&State::Callbacks::ListSequences, folio::v1::ListSequencesRequest(), options);
}

absl::StatusOr<folio::v1::GetSequenceResponse> AdminClient::GetSequence(
    uint64_t sequence_id, const CallOptions& options) {
  folio::v1::GetSequenceRequest request;
  request.set_sequence_id(sequence_id);
  return state_->Call(&State::Callbacks::GetSequence, request, options);
}

absl::StatusOr<folio::v1::ExplainEvictionResponse> AdminClient::ExplainEviction(
    const folio::v1::ExplainEvictionRequest& request, const CallOptions& options) {
  return state_->Call(&State::Callbacks::ExplainEviction, request, options);
}

absl::StatusOr<folio::v1::GetManagerResponse> AdminClient::GetManager(const CallOptions& options) {
  return state_->Call(&State::Callbacks::GetManager, folio::v1::GetManagerRequest(), options);
}

absl::StatusOr<folio::v1::ListWorkersResponse> AdminClient::ListWorkers(
    const CallOptions& options) {
  return state_->Call(&State::Callbacks::ListWorkers, folio::v1::ListWorkersRequest(), options);
}

absl::StatusOr<folio::v1::ListTenantsResponse> AdminClient::ListTenants(
    const CallOptions& options) {
  return state_->Call(&State::Callbacks::ListTenants, folio::v1::ListTenantsRequest(), options);
}

absl::StatusOr<std::vector<folio::v1::PageRun>> AdminClient::ListPages(
    const folio::v1::ListPagesRequest& request, const CallOptions& options) {
  grpc::ClientContext context;
  Prepare(state_->endpoint, options, &context);
  const auto reader = state_->stub->ListPages(&context, request);
  const RunningCall running(options.cancellation, &context);
  std::vector<folio::v1::PageRun> runs;
  folio::v1::ListPagesResponse response;
  while (reader->Read(&response)) {
    runs.insert(runs.end(), response.runs().begin(), response.runs().end());
  }
  const absl::Status status = FromGrpc(state_->endpoint, reader->Finish());
  if (!status.ok()) return ExplainUnimplemented(state_->endpoint, status, options);
  return runs;
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
