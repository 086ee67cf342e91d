// InferenceService is the Inference API of a worker. It checks requests, hands them to the step
// loop and passes on the events that come back.
#ifndef FOLIO_SERVICES_WORKER_RPC_INFERENCE_SERVICE_H_
#define FOLIO_SERVICES_WORKER_RPC_INFERENCE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "folio/v1/inference.grpc.pb.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/rpc/request_check.h"
#include "services/worker/rpc/request_metrics.h"

namespace folio::worker {

// It uses gRPC's callback API, so that no thread waits for a sequence. The events of a slow client
// queue in its call, at most max_tokens and a few more, and do not delay other clients.
// Thread-safe.
class InferenceService final : public folio::v1::Inference::CallbackService {
 public:
  // Borrows the queue and the tokenizer. `model` is the answer to GetModel.
  InferenceService(const ModelLimits& limits, folio::v1::GetModelResponse model,
                   RequestQueue* queue);

  const RequestMetrics& metrics() const { return metrics_; }

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
  const ModelLimits limits_;
  const folio::v1::GetModelResponse model_;
  RequestQueue* const queue_;
  RequestMetrics metrics_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_INFERENCE_SERVICE_H_
