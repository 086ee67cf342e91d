// GenerateCall and ScoreCall are running calls, each a gRPC reactor and the step loop's sink in
// one. A call deletes itself when gRPC is done with it, which is after the step loop is.
#ifndef FOLIO_SERVICES_WORKER_RPC_INFERENCE_CALLS_H_
#define FOLIO_SERVICES_WORKER_RPC_INFERENCE_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "folio/v1/inference.pb.h"
#include "services/base/steady_time.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/rpc/access_entry.h"
#include "services/worker/rpc/request_metrics.h"
#include "services/worker/rpc/send_buffer.h"
#include "services/worker/rpc/slow_clients.h"
#include "services/worker/rpc/unary_call.h"
#include "services/worker/rpc/write_starter.h"

namespace folio::worker {

// Whether the client of a cancelled call gave up, or its deadline passed.
CloseReason WhyCancelled(SteadyTime deadline);

// Hears why a call is refused, once.
using RefusalNote = std::function<void(const absl::Status&)>;

// PendingRequest is a call's request on its way to the step loop. The client may give it up before
// it is checked. Thread-safe.
class PendingRequest {
 public:
  // Borrows the queue.
  explicit PendingRequest(RequestQueue* queue) : queue_(queue) {}

  // Hands it over, once. The errors are those of RequestQueue::Push. The sink's owner may be gone
  // when this returns OK.
  absl::Status Submit(SequenceRequest request, ResultSink* sink) ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel(CloseReason why) ABSL_LOCKS_EXCLUDED(mutex_);
  // As in RequestQueue. Precondition: it was handed over.
  void Pause() { queue_->Pause(*submission()); }
  void Continue() { queue_->Continue(*submission()); }

 private:
  std::shared_ptr<Submission> submission() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return submission_;
  }

  RequestQueue* const queue_;
  absl::Mutex mutex_;
  CloseReason cancelled_ ABSL_GUARDED_BY(mutex_) = CloseReason::kUnspecified;
  std::shared_ptr<Submission> submission_ ABSL_GUARDED_BY(mutex_);  // null until it was handed over
};

// While the client does not read, the sequence stands still with its pages. SlowClients ends a call
// that is behind for too long.
class GenerateCall final : public grpc::ServerWriteReactor<folio::v1::GenerateResponse>,
                           public ResultSink,
                           private WritingCall {
 public:
  // Borrows context, queue, slow clients, write starter and the model's fingerprint.
  GenerateCall(grpc::CallbackServerContext* context, RequestQueue* queue, SlowClients* slow_clients,
               WriteStarter* writes, const RequestRecorder& recorder, AccessEntry access,
               const std::string& fingerprint);

  // Tells `note` how the call ends if it does not end well. Before Begin.
  void OnRefusal(RefusalNote note) { refused_ = std::move(note); }
  // Once, from any thread. Ends the call if the request is not OK. The call may be gone afterwards.
  void Begin(absl::StatusOr<SequenceRequest> request);

  void OnEvent(Event event) override;
  void OnEnd(absl::Status status) override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // One message is written at a time, the first of several by the write starter. FinishNow follows
  // the last one, after the step loop has ended the sequence.
  void StartWriteNow() override ABSL_LOCKS_EXCLUDED(mutex_);
  void FinishNow() ABSL_LOCKS_EXCLUDED(mutex_);
  // The client has a time from now on to read its next message, if it is behind.
  void WatchClient() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SteadyTime deadline_;
  const std::string& fingerprint_;  // of the model
  // Both are used by the step loop, or before it has the request, and `access_` after gRPC's end.
  RequestRecorder recorder_;
  AccessEntry access_;
  RefusalNote refused_;  // empty unless it was set
  PendingRequest pending_;

  SlowClients::Watch slow_;
  WriteStarter* const writes_;

  absl::Mutex mutex_;
  SendBuffer waiting_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool watched_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // the client can no longer be written to
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

class ScoreCall final : public UnaryCall, public ResultSink {
 public:
  // As GenerateCall's, and it borrows the response.
  ScoreCall(grpc::CallbackServerContext* context, RequestQueue* queue, SlowClients* slow_clients,
            const RequestRecorder& recorder, AccessEntry access,
            folio::v1::ScoreResponse* response);

  // Both as GenerateCall's.
  void OnRefusal(RefusalNote note) { refused_ = std::move(note); }
  void Begin(absl::StatusOr<SequenceRequest> request);

  void OnEvent(Event event) override;
  void OnEnd(absl::Status status) override;

  void OnCancel() override;
  void OnDone() override;

 private:
  const SteadyTime deadline_;
  folio::v1::ScoreResponse* const response_;
  RequestRecorder recorder_;
  AccessEntry access_;
  RefusalNote refused_;  // empty unless it was set
  PendingRequest pending_;
  // The answer was on its way, and the call ended before the client had it.
  std::atomic<bool> answered_ = false;
  std::atomic<bool> unread_ = false;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_INFERENCE_CALLS_H_
