#include "services/worker/engine/request_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/worker/engine/refusal.h"

namespace folio::worker {

absl::Status RequestQueue::Push(std::shared_ptr<Submission> submission) {
  absl::MutexLock lock(&mutex_);
  if (!refusal_.ok()) return refusal_;
  if (number_waiting_ >= max_waiting_) {
    absl::Status full = absl::ResourceExhaustedError(
        absl::StrCat("too many requests wait: ", number_waiting_,
                     ", and --max_queue is that; try again later or at another worker"));
    return WithReason(std::move(full), kQueueFull);
  }
  ++number_waiting_;
  waiting_.push_back(std::move(submission));
  if (wake_) wake_();
  return absl::OkStatus();
}

void RequestQueue::Cancel(Submission& submission, CloseReason reason) {
  submission.cancelled.store(reason);
  Wake();
}

void RequestQueue::Pause(Submission& submission) { submission.paused.store(true); }

void RequestQueue::Continue(Submission& submission) {
  submission.paused.store(false);
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

std::optional<SteadyTime> RequestQueue::oldest() {
  absl::MutexLock lock(&mutex_);
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front()->request.arrival;
}

void RequestQueue::OnWaiting(ptrdiff_t change) {
  absl::MutexLock lock(&mutex_);
  FOLIO_CHECK(change >= 0 || number_waiting_ >= static_cast<size_t>(-change));
  number_waiting_ += change;
}

void RequestQueue::Wake() {
  absl::MutexLock lock(&mutex_);
  if (wake_) wake_();
}

}  // namespace folio::worker
