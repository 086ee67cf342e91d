#include "services/worker/rpc/inference_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/grpc/grpc_status.h"
#include "services/text/utf8.h"
#include "services/worker/rpc/inference_calls.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

absl::Status FillTokenize(const v1::TokenizeRequest& request, const ModelLimits& limits,
                          v1::TokenizeResponse* response) {
  if (request.input().has_tokens()) {
    return absl::InvalidArgumentError("input.tokens are tokens already: give text or chat");
  }
  // An empty text has no tokens, which is a valid answer here.
  if (request.input().has_text() && request.input().text().empty()) return absl::OkStatus();
  auto ids = TokensOf(request.input(), "input", limits, response->mutable_text());
  if (!ids.ok()) return ids.status();
  for (const TokenId id : *ids) {
    auto bytes = limits.tokenizer->TokenBytes(id);
    if (!bytes.ok()) return bytes.status();
    response->add_ids(id.value());
    response->add_pieces(*std::move(bytes));
  }
  return absl::OkStatus();
}

absl::Status FillDetokenize(const v1::DetokenizeRequest& request, const ModelLimits& limits,
                            v1::DetokenizeResponse* response) {
  Utf8Assembler utf8;
  std::string text;
  for (int i = 0; i < request.ids_size(); ++i) {
    const TokenId id(request.ids(i));
    if (id.value() >= limits.vocab) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ids[", i, "] is ", id.value(), ", the vocabulary has ", limits.vocab, " tokens"));
    }
    if (request.skip_special() && limits.tokenizer->IsSpecial(id)) continue;
    auto bytes = limits.tokenizer->TokenBytes(id);
    if (!bytes.ok()) return bytes.status();
    text += utf8.Feed(*bytes);
  }
  response->set_text(text + utf8.Flush());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace

InferenceService::InferenceService(const ModelLimits& limits, v1::GetModelResponse model,
                                   RequestQueue* queue)
    : limits_(limits), model_(std::move(model)), queue_(queue), metrics_(model_.layout().model()) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  // It begins before the request is tokenized, because the client waits from here.
  const RequestRecorder recorder(
      &metrics_, request->has_resume() ? RequestKind::kResume : RequestKind::kGenerate);
  return new GenerateCall(context, queue_, CheckGenerate(*request, limits_), recorder);
}

grpc::ServerUnaryReactor* InferenceService::Score(grpc::CallbackServerContext* context,
                                                  const v1::ScoreRequest* request,
                                                  v1::ScoreResponse* response) {
  const RequestRecorder recorder(&metrics_, RequestKind::kScore);
  return new ScoreCall(context, queue_, CheckScore(*request, limits_), recorder, response);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  return Answer(context, FillTokenize(*request, limits_, response));
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  return Answer(context, FillDetokenize(*request, limits_, response));
}

grpc::ServerUnaryReactor* InferenceService::GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest* /*request*/,
                                                     v1::GetModelResponse* response) {
  *response = model_;
  return Answer(context, absl::OkStatus());
}

}  // namespace folio::worker
