// InferenceService is the Inference API of a worker. It checks requests, hands them to the step
// loop and passes on the events that come back.
#ifndef FOLIO_SERVICES_WORKER_RPC_INFERENCE_SERVICE_H_
#define FOLIO_SERVICES_WORKER_RPC_INFERENCE_SERVICE_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "folio/v1/inference.grpc.pb.h"
#include "services/access/gate.h"
#include "services/tracing/tracer.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/rpc/access_entry.h"
#include "services/worker/rpc/request_check.h"
#include "services/worker/rpc/request_metrics.h"
#include "services/worker/rpc/slow_clients.h"
#include "services/worker/rpc/tokenizer_pool.h"
#include "services/worker/rpc/write_starter.h"

namespace folio::worker {

// It uses gRPC's callback API, so that no thread waits for a sequence, and checks requests on
// threads of its own, so that gRPC's threads never tokenize. A client that does not read delays no
// other, and its own sequence waits for it.
// Thread-safe.
class InferenceService final : public folio::v1::Inference::CallbackService {
 public:
  // Borrows the queue and the tokenizer. `model` is the answer to GetModel. The call of a client
  // that does not read ends after `slow_client_timeout`, or never if that is zero. `access_log`, if
  // it is not empty, gets each request of Generate and Score when its call has ended. The tracer
  // gets their spans. The gate decides who may call, and without one everybody may do everything.
  // Tracer and gate are borrowed, and may be null.
  InferenceService(const ModelLimits& limits, folio::v1::GetModelResponse model,
                   RequestQueue* queue, absl::Duration slow_client_timeout = absl::ZeroDuration(),
                   AccessLog access_log = nullptr, tracing::Tracer* tracer = nullptr,
                   access::Gate* gate = nullptr);

  const RequestMetrics& metrics() const { return metrics_; }
  const access::Gate* gate() const { return gate_; }

  grpc::ServerWriteReactor<folio::v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const folio::v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const folio::v1::ScoreRequest* request,
                                  folio::v1::ScoreResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const folio::v1::TokenizeRequest* request,
                                     folio::v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const folio::v1::DetokenizeRequest* request,
                                       folio::v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const folio::v1::GetModelRequest* request,
                                     folio::v1::GetModelResponse* response) override;

 private:
  // The caller, if it may make requests for a tenant. The errors are those of Gate::Admit.
  absl::StatusOr<access::Caller> Admit(const grpc::CallbackServerContext& context,
                                       absl::string_view call);
  // Begins `call` with the checked request of the caller, later.
  template <typename Call, typename Request>
  void BeginLater(Call* call, grpc::CallbackServerContext* context, const Request* request,
                  absl::StatusOr<SequenceRequest> (*check)(const Request&, const ModelLimits&),
                  absl::StatusOr<access::Caller> caller);
  // Answers the call of this name with what `work` returns and writes to the response, later.
  grpc::ServerUnaryReactor* AnswerLater(grpc::CallbackServerContext* context,
                                        const google::protobuf::Message& request,
                                        const google::protobuf::Message* response,
                                        absl::string_view name, std::function<absl::Status()> work);

  const ModelLimits limits_;
  const folio::v1::GetModelResponse model_;
  RequestQueue* const queue_;
  const AccessLog access_log_;
  tracing::Tracer* const tracer_;
  access::Gate* const gate_;
  RequestMetrics metrics_;
  SlowClients slow_clients_;
  WriteStarter write_starter_;
  TokenizerPool tokenizer_pool_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_INFERENCE_SERVICE_H_
