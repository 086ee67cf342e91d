#include "services/client/client.h"

#include <utility>

#include "folio/v1/inference.grpc.pb.h"
#include "services/client/channel.h"
#include "services/client/client_state.h"
#include "services/client/utf8_check.h"

namespace folio::client {

Client::Client(std::shared_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view address,
                                                        const ConnectOptions& options) {
  absl::StatusOr<Endpoint> endpoint = client::Connect("worker", address, options);
  if (!endpoint.ok()) return endpoint.status();
  std::vector<std::string> addresses = {std::string(address)};
  for (const std::string& standby : options.standby) {
    if (absl::Status status = CheckAddress(standby); !status.ok()) return status;
    if (const auto token = CallToken::Make(standby, options); !token.ok()) return token.status();
    addresses.push_back(standby);
  }
  auto state = std::make_shared<State>(*std::move(endpoint), std::move(addresses), options);
  return std::unique_ptr<Client>(new Client(std::move(state)));
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
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::Score, request,
                   options);
}

absl::StatusOr<folio::v1::TokenizeResponse> Client::Tokenize(const folio::v1::Input& input,
                                                             const CallOptions& options) {
  folio::v1::TokenizeRequest request;
  *request.mutable_input() = input;
  if (absl::Status status = CheckUtf8(request); !status.ok()) return status;
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::Tokenize, request,
                   options);
}

absl::StatusOr<std::string> Client::Detokenize(absl::Span<const uint32_t> ids, bool skip_special,
                                               const CallOptions& options) {
  folio::v1::DetokenizeRequest request;
  request.mutable_ids()->Add(ids.begin(), ids.end());
  request.set_skip_special(skip_special);
  auto response = CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::Detokenize,
                            request, options);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_text());
}

absl::StatusOr<folio::v1::GetModelResponse> Client::GetModel(const CallOptions& options) {
  return CallUnary(state_->endpoint, state_->stub->async(), &State::Callbacks::GetModel,
                   folio::v1::GetModelRequest(), options);
}

absl::StatusOr<bool> Client::IsServing(const CallOptions& options) {
  return CheckHealth(state_->endpoint, options);
}

}  // namespace folio::client
