#include "services/worker/rpc/inference_calls.h"

#include <utility>

#include "services/grpc/grpc_deadline.h"
#include "services/grpc/grpc_status.h"
#include "services/worker/rpc/event_messages.h"

namespace folio::worker {

namespace v1 = folio::v1;

CloseReason WhyCancelled(SteadyTime deadline) {
  return deadline <= SteadyNow() ? CloseReason::kDeadline : CloseReason::kCancelled;
}

absl::Status PendingRequest::Submit(SequenceRequest request, ResultSink* sink) {
  auto submission = std::make_shared<Submission>();
  submission->request = std::move(request);
  submission->sink = sink;
  {
    absl::MutexLock lock(&mutex_);
    submission->cancelled.store(cancelled_);
    submission_ = submission;
  }
  return queue_->Push(std::move(submission));
}

void PendingRequest::Cancel(CloseReason why) {
  std::shared_ptr<Submission> submission;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = why;
    submission = submission_;
  }
  if (submission != nullptr) queue_->Cancel(*submission, why);
}

GenerateCall::GenerateCall(grpc::CallbackServerContext* context, RequestQueue* queue,
                           SlowClients* slow_clients, WriteStarter* writes,
                           const RequestRecorder& recorder, AccessEntry access,
                           const std::string& fingerprint)
    : deadline_(SteadyDeadline(context->raw_deadline())),
      fingerprint_(fingerprint),
      recorder_(recorder),
      access_(std::move(access)),
      pending_(queue),
      slow_(slow_clients, context),
      writes_(writes) {}

void GenerateCall::Begin(absl::StatusOr<SequenceRequest> request) {
  absl::Status status = request.status();
  if (status.ok()) {
    request->trace = access_.trace();
    status = pending_.Submit(*std::move(request), this);
  }
  if (!status.ok()) OnEnd(std::move(status));
}

void GenerateCall::OnEvent(Event event) {
  recorder_.OnEvent(event);
  access_.OnEvent(event);
  v1::GenerateResponse message = ToProto(std::move(event));
  if (message.has_started()) message.mutable_started()->set_model_fingerprint(fingerprint_);
  {
    absl::MutexLock lock(&mutex_);
    if (broken_) return;
    waiting_.Push(std::move(message));
    if (!paused_ && waiting_.full()) {
      paused_ = true;
      pending_.Pause();
      WatchClient();
    }
    if (writing_) return;  // OnWriteDone writes it
    writing_ = true;
  }
  writes_->Start(this);
}

void GenerateCall::OnEnd(absl::Status status) {
  if (!status.ok() && refused_) refused_(status);
  recorder_.OnEnd(status);
  access_.OnEnd(status);
  {
    absl::MutexLock lock(&mutex_);
    end_ = std::move(status);
    if (writing_) {
      WatchClient();
      return;  // OnWriteDone finishes
    }
  }
  FinishNow();
}

void GenerateCall::OnWriteDone(bool ok) {
  const v1::GenerateResponse* next = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    waiting_.Pop();
    if (!ok) {
      broken_ = true;
      waiting_.Clear();
    }
    if (paused_ && waiting_.drained()) {
      paused_ = false;
      pending_.Continue();
    }
    WatchClient();
    writing_ = !waiting_.empty();
    if (!writing_ && !end_) return;
    next = writing_ ? &waiting_.front() : nullptr;
  }
  if (next != nullptr) return StartWrite(next);
  FinishNow();
}

void GenerateCall::WatchClient() {
  const bool behind = paused_ || (end_ && !waiting_.empty());
  if (behind) {
    slow_.Start();
  } else if (watched_) {
    slow_.Stop();
  }
  watched_ = behind;
}

// Outside the lock, which the step loop may want meanwhile. No other thread takes the message away.
void GenerateCall::StartWriteNow() {
  const v1::GenerateResponse* message = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    message = &waiting_.front();
  }
  StartWrite(message);
}

// Finish is called outside the lock, because gRPC may delete this object before it returns.
void GenerateCall::FinishNow() {
  grpc::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = ToGrpcStatus(*end_);
  }
  access_.OnAnswer();
  Finish(std::move(status));
}

void GenerateCall::OnCancel() { pending_.Cancel(WhyCancelled(deadline_)); }

// The line is written here and not in OnEnd, which the step loop calls.
void GenerateCall::OnDone() {
  {
    absl::MutexLock lock(&mutex_);
    if (broken_) access_.OnUnread();
  }
  access_.Write();
  delete this;
}

ScoreCall::ScoreCall(grpc::CallbackServerContext* context, RequestQueue* queue,
                     SlowClients* slow_clients, const RequestRecorder& recorder, AccessEntry access,
                     v1::ScoreResponse* response)
    : UnaryCall(slow_clients, context, response),
      deadline_(SteadyDeadline(context->raw_deadline())),
      response_(response),
      recorder_(recorder),
      access_(std::move(access)),
      pending_(queue) {}

void ScoreCall::Begin(absl::StatusOr<SequenceRequest> request) {
  absl::Status status = request.status();
  if (status.ok()) {
    request->trace = access_.trace();
    status = pending_.Submit(*std::move(request), this);
  }
  if (!status.ok()) OnEnd(std::move(status));
}

void ScoreCall::OnEvent(Event event) {
  recorder_.OnEvent(event);
  access_.OnEvent(event);
  AddToProto(std::move(event), response_);
}

void ScoreCall::OnEnd(absl::Status status) {
  if (!status.ok() && refused_) refused_(status);
  recorder_.OnEnd(status);
  access_.OnEnd(status);
  access_.OnAnswer();
  answered_ = true;
  Answer(status);
}

void ScoreCall::OnCancel() {
  if (answered_) unread_ = true;
  pending_.Cancel(WhyCancelled(deadline_));
}

void ScoreCall::OnDone() {
  if (unread_) access_.OnUnread();
  access_.Write();
  delete this;
}

}  // namespace folio::worker
