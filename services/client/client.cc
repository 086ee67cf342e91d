#include "services/client/client.h"

#include <grpcpp/support/sync_stream.h>

#include <utility>

#include "folio/v1/inference.grpc.pb.h"
#include "services/client/channel.h"
#include "services/client/utf8_check.h"

namespace folio::client {

class Client::State {
 public:
  explicit State(Endpoint to)
      : endpoint(std::move(to)), stub(folio::v1::Inference::NewStub(endpoint.channel)) {}

  const Endpoint endpoint;
  const std::unique_ptr<folio::v1::Inference::Stub> stub;
};

class Generation::State {
 public:
  State(std::shared_ptr<Client::State> client, const folio::v1::GenerateRequest& request,
        const CallOptions& options)
      : client_(std::move(client)) {
    status_ = CheckUtf8(request);
    ended_ = !status_.ok();
    if (ended_) return;
    Prepare(options, &context_);
    reader_ = client_->stub->Generate(&context_, request);
    running_.emplace(options.cancellation, &context_);
  }

  ~State() {
    if (ended_) return;
    context_.TryCancel();
    while (Next().has_value()) {
    }
  }

  std::optional<folio::v1::GenerateResponse> Next() {
    if (ended_) return std::nullopt;
    folio::v1::GenerateResponse event;
    if (reader_->Read(&event)) {
      finished_ = finished_ || event.has_finished();
      return event;
    }
    ended_ = true;
    status_ = FromGrpc(client_->endpoint, reader_->Finish());
    running_.reset();
    if (status_.ok() && !finished_) {
      status_ = absl::InternalError(client_->endpoint.name + " ended the stream without a result");
    }
    return std::nullopt;
  }

  const absl::Status& status() const { return status_; }
  void Cancel() { context_.TryCancel(); }

 private:
  const std::shared_ptr<Client::State> client_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<folio::v1::GenerateResponse>> reader_;
  std::optional<RunningCall> running_;
  bool finished_ = false;
  bool ended_ = false;
  absl::Status status_;
};

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&& other) noexcept = default;
Generation& Generation::operator=(Generation&& other) noexcept = default;
Generation::~Generation() = default;

std::optional<folio::v1::GenerateResponse> Generation::Next() { return state_->Next(); }
absl::Status Generation::status() const { return state_->status(); }
void Generation::Cancel() { state_->Cancel(); }

Client::Client(std::shared_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view address,
                                                        const ConnectOptions& options) {
  absl::StatusOr<Endpoint> endpoint = client::Connect("worker", address, options);
  if (!endpoint.ok()) return endpoint.status();
  return std::unique_ptr<Client>(new Client(std::make_shared<State>(*std::move(endpoint))));
}

Generation Client::Start(const folio::v1::GenerateRequest& request, const CallOptions& options) {
  return Generation(std::make_unique<Generation::State>(state_, request, options));
}

absl::Status Client::Generate(const folio::v1::GenerateRequest& request,
                              absl::FunctionRef<bool(const folio::v1::GenerateResponse&)> on_event,
                              const CallOptions& options) {
  Generation generation = Start(request, options);
  while (const auto event = generation.Next()) {
    if (!on_event(*event)) return absl::CancelledError("the call was cancelled");
  }
  return generation.status();
}

absl::StatusOr<Completion> Client::Complete(const folio::v1::GenerateRequest& request,
                                            const CallOptions& options) {
  Completion result;
  Generation generation = Start(request, options);
  while (auto event = generation.Next()) {
    switch (event->event_case()) {
      case folio::v1::GenerateResponse::kStarted:
        result.started = std::move(*event->mutable_started());
        break;
      case folio::v1::GenerateResponse::kChunk: {
        auto* chunk = event->mutable_chunk();
        result.text += chunk->text();
        result.tokens.insert(result.tokens.end(), chunk->tokens().begin(), chunk->tokens().end());
        for (auto& logprob : *chunk->mutable_logprobs()) {
          result.logprobs.push_back(std::move(logprob));
        }
        break;
      }
      case folio::v1::GenerateResponse::kEviction:
        result.evictions.push_back(std::move(*event->mutable_eviction()));
        break;
      case folio::v1::GenerateResponse::kFinished:
        result.finished = std::move(*event->mutable_finished());
        break;
      default:
        break;
    }
  }
  if (!generation.status().ok()) return generation.status();
  return result;
}

absl::StatusOr<folio::v1::ScoreResponse> Client::Score(const folio::v1::ScoreRequest& request,
                                                       const CallOptions& options) {
  if (absl::Status status = CheckUtf8(request); !status.ok()) return status;
  folio::v1::ScoreResponse response;
  absl::Status status =
      Call(state_->endpoint, options, [&](grpc::ClientContext* context, auto done) {
        state_->stub->async()->Score(context, &request, &response, std::move(done));
      });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<folio::v1::TokenizeResponse> Client::Tokenize(const folio::v1::Input& input,
                                                             const CallOptions& options) {
  folio::v1::TokenizeRequest request;
  *request.mutable_input() = input;
  if (absl::Status status = CheckUtf8(request); !status.ok()) return status;
  folio::v1::TokenizeResponse response;
  absl::Status status =
      Call(state_->endpoint, options, [&](grpc::ClientContext* context, auto done) {
        state_->stub->async()->Tokenize(context, &request, &response, std::move(done));
      });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<std::string> Client::Detokenize(absl::Span<const uint32_t> ids, bool skip_special,
                                               const CallOptions& options) {
  folio::v1::DetokenizeRequest request;
  request.mutable_ids()->Add(ids.begin(), ids.end());
  request.set_skip_special(skip_special);
  folio::v1::DetokenizeResponse response;
  absl::Status status =
      Call(state_->endpoint, options, [&](grpc::ClientContext* context, auto done) {
        state_->stub->async()->Detokenize(context, &request, &response, std::move(done));
      });
  if (!status.ok()) return status;
  return std::move(*response.mutable_text());
}

absl::StatusOr<folio::v1::GetModelResponse> Client::GetModel(const CallOptions& options) {
  const folio::v1::GetModelRequest request;
  folio::v1::GetModelResponse response;
  absl::Status status =
      Call(state_->endpoint, options, [&](grpc::ClientContext* context, auto done) {
        state_->stub->async()->GetModel(context, &request, &response, std::move(done));
      });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<bool> Client::IsServing(const CallOptions& options) {
  return CheckHealth(state_->endpoint, options);
}

}  // namespace folio::client
