#include "services/worker/inference_calls.h"

#include <chrono>
#include <utility>

#include "services/common/grpc_status.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

std::shared_ptr<Submission> Submit(SequenceRequest request, ResultSink* sink) {
  auto submission = std::make_shared<Submission>();
  submission->request = std::move(request);
  submission->sink = sink;
  return submission;
}

v1::CloseReason WhyCancelled(const grpc::CallbackServerContext& context) {
  return context.deadline() <= std::chrono::system_clock::now() ? v1::CLOSE_REASON_DEADLINE
                                                                : v1::CLOSE_REASON_CANCELLED;
}

}  // namespace

GenerateCall::GenerateCall(grpc::CallbackServerContext* context, RequestQueue* queue,
                           absl::StatusOr<SequenceRequest> request)
    : context_(context), queue_(queue) {
  if (!request.ok()) {
    Done(request.status());
    return;
  }
  submission_ = Submit(*std::move(request), this);
  if (absl::Status status = queue_->Push(submission_); !status.ok()) Done(std::move(status));
}

void GenerateCall::Event(v1::GenerateResponse event) {
  absl::MutexLock lock(&mutex_);
  if (broken_) return;
  waiting_.push_back(std::move(event));
  if (!writing_) WriteNext();
}

void GenerateCall::Done(absl::Status status) {
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

// Not under the lock: gRPC may delete this before Finish returns.
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
                     absl::StatusOr<SequenceRequest> request, v1::ScoreResponse* response)
    : context_(context), queue_(queue), response_(response) {
  if (!request.ok()) {
    Done(request.status());
    return;
  }
  submission_ = Submit(*std::move(request), this);
  if (absl::Status status = queue_->Push(submission_); !status.ok()) Done(std::move(status));
}

void ScoreCall::Event(v1::GenerateResponse event) {
  switch (event.event_case()) {
    case v1::GenerateResponse::kChunk:
      for (v1::TokenLogprob& logprob : *event.mutable_chunk()->mutable_logprobs()) {
        *response_->add_tokens() = std::move(logprob);
      }
      break;
    case v1::GenerateResponse::kEviction:
      *response_->add_evictions() = std::move(*event.mutable_eviction());
      break;
    case v1::GenerateResponse::kFinished:
      *response_->mutable_usage() = event.finished().usage();
      *response_->mutable_cache() = event.finished().cache();
      break;
    default:
      break;
  }
}

void ScoreCall::Done(absl::Status status) { Finish(ToGrpcStatus(status)); }

void ScoreCall::OnCancel() {
  if (submission_ != nullptr) queue_->Cancel(*submission_, WhyCancelled(*context_));
}

}  // namespace folio::worker
