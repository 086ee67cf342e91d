#include "services/worker/rpc/inference_calls.h"

#include <chrono>
#include <utility>

#include "services/grpc/grpc_status.h"
#include "services/worker/rpc/event_messages.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

std::shared_ptr<Submission> Submit(SequenceRequest request, ResultSink* sink) {
  auto submission = std::make_shared<Submission>();
  submission->request = std::move(request);
  submission->sink = sink;
  return submission;
}

CloseReason WhyCancelled(const grpc::CallbackServerContext& context) {
  return context.deadline() <= std::chrono::system_clock::now() ? CloseReason::kDeadline
                                                                : CloseReason::kCancelled;
}

}  // namespace

GenerateCall::GenerateCall(grpc::CallbackServerContext* context, RequestQueue* queue,
                           absl::StatusOr<SequenceRequest> request, const RequestRecorder& recorder)
    : context_(context), queue_(queue), recorder_(recorder) {
  if (!request.ok()) {
    OnEnd(request.status());
    return;
  }
  submission_ = Submit(*std::move(request), this);
  if (absl::Status status = queue_->Push(submission_); !status.ok()) OnEnd(std::move(status));
}

void GenerateCall::OnEvent(Event event) {
  recorder_.OnEvent(event);
  absl::MutexLock lock(&mutex_);
  if (broken_) return;
  waiting_.push_back(ToProto(std::move(event)));
  if (!writing_) WriteNext();
}

void GenerateCall::OnEnd(absl::Status status) {
  recorder_.OnEnd(status);
  {
    absl::MutexLock lock(&mutex_);
    end_ = std::move(status);
    if (writing_) return;  // OnWriteDone finishes
  }
  FinishNow();
}

void GenerateCall::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    waiting_.pop_front();
    if (!ok) {
      broken_ = true;
      waiting_.clear();
    }
    if (!waiting_.empty()) WriteNext();
    if (writing_ || !end_) return;
  }
  FinishNow();
}

void GenerateCall::WriteNext() {
  writing_ = true;
  StartWrite(&waiting_.front());
}

// Finish is called outside the lock, because gRPC may delete this object before it returns.
void GenerateCall::FinishNow() {
  grpc::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = ToGrpcStatus(*end_);
  }
  Finish(std::move(status));
}

void GenerateCall::OnCancel() {
  if (submission_ != nullptr) queue_->Cancel(*submission_, WhyCancelled(*context_));
}

ScoreCall::ScoreCall(grpc::CallbackServerContext* context, RequestQueue* queue,
                     absl::StatusOr<SequenceRequest> request, const RequestRecorder& recorder,
                     v1::ScoreResponse* response)
    : context_(context), queue_(queue), response_(response), recorder_(recorder) {
  if (!request.ok()) {
    OnEnd(request.status());
    return;
  }
  submission_ = Submit(*std::move(request), this);
  if (absl::Status status = queue_->Push(submission_); !status.ok()) OnEnd(std::move(status));
}

void ScoreCall::OnEvent(Event event) {
  recorder_.OnEvent(event);
  AddToProto(std::move(event), response_);
}

void ScoreCall::OnEnd(absl::Status status) {
  recorder_.OnEnd(status);
  Finish(ToGrpcStatus(status));
}

void ScoreCall::OnCancel() {
  if (submission_ != nullptr) queue_->Cancel(*submission_, WhyCancelled(*context_));
}

}  // namespace folio::worker
