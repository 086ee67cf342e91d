// The Inference RPCs: checks what comes in, hands it to the step loop, passes on what comes out.
#ifndef FOLIO_SERVICES_WORKER_INFERENCE_SERVICE_H_
#define FOLIO_SERVICES_WORKER_INFERENCE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "folio/v1/inference.grpc.pb.h"
#include "services/worker/request_check.h"
#include "services/worker/request_queue.h"

namespace folio::worker {

// Callback API: no thread waits for a sequence. A slow client's events queue in its call (at most
// max_tokens and a few more) and hold up nobody. Thread-safe.
class InferenceService final : public folio::v1::Inference::CallbackService {
 public:
  // Borrows the queue and the tokenizer. `model` is what GetModel says.
  InferenceService(const ModelLimits& limits, folio::v1::GetModelResponse model,
                   RequestQueue* queue);

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
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_INFERENCE_SERVICE_H_
