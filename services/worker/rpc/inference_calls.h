// GenerateCall and ScoreCall are running calls, each a gRPC reactor and the step loop's sink in
// one. A call deletes itself when gRPC is done with it, which is after the step loop is.
#ifndef FOLIO_SERVICES_WORKER_RPC_INFERENCE_CALLS_H_
#define FOLIO_SERVICES_WORKER_RPC_INFERENCE_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "folio/v1/inference.pb.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/rpc/request_metrics.h"

namespace folio::worker {

class GenerateCall final : public grpc::ServerWriteReactor<folio::v1::GenerateResponse>,
                           public ResultSink {
 public:
  // Ends the call at once if the request is not OK. Borrows context and queue.
  GenerateCall(grpc::CallbackServerContext* context, RequestQueue* queue,
               absl::StatusOr<SequenceRequest> request, const RequestRecorder& recorder);

  void OnEvent(Event event) override;
  void OnEnd(absl::Status status) override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  // Writes one message at a time. FinishNow follows the last one, after the step loop has ended the
  // sequence.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishNow() ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::CallbackServerContext* const context_;
  RequestQueue* const queue_;
  RequestRecorder recorder_;                // used by the step loop, or before it has the request
  std::shared_ptr<Submission> submission_;  // null if the request was refused

  absl::Mutex mutex_;
  std::deque<folio::v1::GenerateResponse> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // the client can no longer be written to
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

class ScoreCall final : public grpc::ServerUnaryReactor, public ResultSink {
 public:
  ScoreCall(grpc::CallbackServerContext* context, RequestQueue* queue,
            absl::StatusOr<SequenceRequest> request, const RequestRecorder& recorder,
            folio::v1::ScoreResponse* response);

  void OnEvent(Event event) override;
  void OnEnd(absl::Status status) override;

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  grpc::CallbackServerContext* const context_;
  RequestQueue* const queue_;
  folio::v1::ScoreResponse* const response_;
  RequestRecorder recorder_;
  std::shared_ptr<Submission> submission_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_INFERENCE_CALLS_H_
