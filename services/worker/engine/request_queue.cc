#include "services/worker/engine/request_queue.h"

#include <utility>

namespace folio::worker {

absl::Status RequestQueue::Push(std::shared_ptr<Submission> submission) {
  absl::MutexLock lock(&mutex_);
  if (!refusal_.ok()) return refusal_;
  waiting_.push_back(std::move(submission));
  if (wake_) wake_();
  return absl::OkStatus();
}

void RequestQueue::Cancel(Submission& submission, CloseReason reason) {
  submission.cancelled.store(reason);
  Wake();
}

void RequestQueue::Open(std::function<void()> wake) {
  absl::MutexLock lock(&mutex_);
  refusal_ = absl::OkStatus();
  wake_ = std::move(wake);
}

void RequestQueue::Refuse(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  refusal_ = std::move(why);
}

std::vector<std::shared_ptr<Submission>> RequestQueue::Close(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  refusal_ = std::move(why);
  wake_ = nullptr;
  return std::exchange(waiting_, {});
}

std::vector<std::shared_ptr<Submission>> RequestQueue::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(waiting_, {});
}

void RequestQueue::Wake() {
  absl::MutexLock lock(&mutex_);
  if (wake_) wake_();
}

}  // namespace folio::worker
