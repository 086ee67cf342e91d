#include "services/worker/rpc/inference_service.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/grpc/grpc_deadline.h"
#include "services/text/utf8.h"
#include "services/worker/rpc/inference_calls.h"
#include "services/worker/rpc/unary_call.h"

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
  const auto count = static_cast<size_t>(request.ids_size());
  if (absl::Status status = CheckTokenCount("ids", count, limits); !status.ok()) return status;
  Utf8Assembler utf8;
  std::string text;
  std::vector<TokenId> ids;
  for (int i = 0; i < request.ids_size(); ++i) {
    const TokenId id = ids.emplace_back(request.ids(i));
    if (id.value() >= limits.vocab) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ids[", i, "] is ", id.value(), ", the vocabulary has ", limits.vocab, " tokens"));
    }
    if (request.skip_special() && limits.tokenizer->IsSpecial(id)) continue;
    auto bytes = limits.tokenizer->TokenBytes(id);
    if (!bytes.ok()) return bytes.status();
    text += utf8.Feed(*bytes);
  }
  text += utf8.Flush();
  if (request.skip_special() && limits.tokenizer->BeginsWithAddedSpace(ids)) text.erase(0, 1);
  response->set_text(std::move(text));
  return absl::OkStatus();
}

RequestKind KindOf(const v1::GenerateRequest& request) {
  if (request.has_resume()) return RequestKind::kResume;
  return request.has_replay() ? RequestKind::kReplay : RequestKind::kGenerate;
}

// For a call that was cancelled before anything was done for it.
absl::Status CancelledStatus(const grpc::CallbackServerContext& context) {
  if (WhyCancelled(SteadyDeadline(context.raw_deadline())) == CloseReason::kDeadline) {
    return absl::DeadlineExceededError("the deadline passed before the request was tokenized");
  }
  return absl::CancelledError("the client cancelled before the request was tokenized");
}

template <typename Request>
constexpr absl::string_view CallName() {
  return std::is_same_v<Request, v1::ScoreRequest> ? "Score" : "Generate";
}

// The request becomes that of its caller's tenant.
void BelongTo(const access::Caller& caller, SequenceRequest* request) {
  if (caller.scope != access::TenantScope::kOne) return;
  request->tenant = caller.tenant;
  if (request->resume.has_value()) request->resume->tenant = caller.tenant;
}

// For the log.
std::string TenantName(const absl::StatusOr<access::Caller>& caller, const std::string& wanted) {
  const bool own = caller.ok() && caller->scope == access::TenantScope::kOne && wanted.empty();
  return own ? caller->tenant : wanted;
}

}  // namespace

InferenceService::InferenceService(const ModelLimits& limits, v1::GetModelResponse model,
                                   RequestQueue* queue, absl::Duration slow_client_timeout,
                                   AccessLog access_log, tracing::Tracer* tracer,
                                   access::Gate* gate)
    : limits_(limits),
      model_(std::move(model)),
      queue_(queue),
      access_log_(std::move(access_log)),
      tracer_(tracer),
      gate_(gate),
      metrics_(model_.layout().model()),
      slow_clients_(slow_client_timeout, [this] { metrics_.OnSlowClient(); }) {}

absl::StatusOr<access::Caller> InferenceService::Admit(const grpc::CallbackServerContext& context,
                                                       absl::string_view call) {
  if (gate_ == nullptr) return access::Anyone();
  return gate_->Admit(context, call, access::Need::kTenant);
}

// gRPC keeps context and request until the call has ended, which is after Begin.
template <typename Call, typename Request>
void InferenceService::BeginLater(Call* call, grpc::CallbackServerContext* context,
                                  const Request* request,
                                  absl::StatusOr<SequenceRequest> (*check)(const Request&,
                                                                           const ModelLimits&),
                                  absl::StatusOr<access::Caller> caller) {
  if (!caller.ok()) {
    call->Begin(caller.status());
    return;
  }
  const SteadyTime arrival = SteadyNow();
  const auto tenant = access::TenantFor(*caller, request->tenant());
  call->OnRefusal([this, context, name = caller->name](const absl::Status& why) {
    if (gate_ != nullptr) gate_->Note(*context, CallName<Request>(), name, why);
  });
  if (!tenant.ok()) {
    call->Begin(tenant.status());
    return;
  }
  const absl::Status status = tokenizer_pool_.Run(
      request->ByteSizeLong(),
      [this, call, context, request, check, arrival, caller = *std::move(caller)] {
        if (context->IsCancelled()) {
          call->Begin(CancelledStatus(*context));
          return;
        }
        absl::StatusOr<SequenceRequest> checked = check(*request, limits_);
        if (checked.ok()) {
          checked->arrival = arrival;
          BelongTo(caller, &*checked);
          if (gate_ != nullptr) {
            checked->priority = gate_->PriorityFor(checked->tenant, checked->priority);
          }
        }
        call->Begin(std::move(checked));
      });
  if (!status.ok()) call->Begin(status);
}

grpc::ServerUnaryReactor* InferenceService::AnswerLater(grpc::CallbackServerContext* context,
                                                        const google::protobuf::Message& request,
                                                        const google::protobuf::Message* response,
                                                        absl::string_view name,
                                                        std::function<absl::Status()> work) {
  auto* call = new UnaryCall(&slow_clients_, context, response);
  if (const auto caller = Admit(*context, name); !caller.ok()) {
    call->Answer(caller.status());
    return call;
  }
  const absl::Status status =
      tokenizer_pool_.Run(request.ByteSizeLong(), [context, call, work = std::move(work)] {
        call->Answer(context->IsCancelled() ? CancelledStatus(*context) : work());
      });
  if (!status.ok()) call->Answer(status);
  return call;
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  // It begins before the request is tokenized, because the client waits from here.
  auto caller = Admit(*context, "Generate");
  const RequestKind kind = KindOf(*request);
  const RequestRecorder recorder(&metrics_, kind);
  AccessEntry access(
      &access_log_, tracer_, *context,
      {.kind = kind,
       .label = request->label(),
       .tenant = TenantName(caller, request->tenant()),
       .cache = request->cache(),
       .resumed_tokens = static_cast<uint32_t>(request->resume().received_tokens_size() +
                                               request->replay().received_tokens_size())});
  auto* call = new GenerateCall(context, queue_, &slow_clients_, &write_starter_, recorder,
                                std::move(access), limits_.fingerprint);
  BeginLater(call, context, request, &CheckGenerate, std::move(caller));
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Score(grpc::CallbackServerContext* context,
                                                  const v1::ScoreRequest* request,
                                                  v1::ScoreResponse* response) {
  auto caller = Admit(*context, "Score");
  const RequestRecorder recorder(&metrics_, RequestKind::kScore);
  AccessEntry access(&access_log_, tracer_, *context,
                     {.kind = RequestKind::kScore,
                      .label = request->label(),
                      .tenant = TenantName(caller, request->tenant()),
                      .cache = request->cache()});
  auto* call =
      new ScoreCall(context, queue_, &slow_clients_, recorder, std::move(access), response);
  BeginLater(call, context, request, &CheckScore, std::move(caller));
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  return AnswerLater(context, *request, response, "Tokenize", [this, request, response] {
    return FillTokenize(*request, limits_, response);
  });
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  return AnswerLater(context, *request, response, "Detokenize", [this, request, response] {
    return FillDetokenize(*request, limits_, response);
  });
}

grpc::ServerUnaryReactor* InferenceService::GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest* /*request*/,
                                                     v1::GetModelResponse* response) {
  const auto caller = Admit(*context, "GetModel");
  if (caller.ok()) *response = model_;
  auto* call = new UnaryCall(&slow_clients_, context, response);
  call->Answer(caller.status());
  return call;
}

}  // namespace folio::worker
