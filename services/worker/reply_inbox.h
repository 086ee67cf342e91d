// Where a link's replies wait for the step loop, and the link's end with them. Thread-safe.
#ifndef FOLIO_SERVICES_WORKER_REPLY_INBOX_H_
#define FOLIO_SERVICES_WORKER_REPLY_INBOX_H_

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "folio/v1/kv_manager.pb.h"

namespace folio::worker {

class ReplyInbox {
 public:
  void Push(folio::v1::SessionReply reply) {
    absl::MutexLock lock(&mutex_);
    replies_.push_back(std::move(reply));
  }

  std::optional<folio::v1::SessionReply> TryPop() {
    absl::MutexLock lock(&mutex_);
    return PopLocked();
  }

  // Until a reply, Wake, Fail or `deadline`.
  std::optional<folio::v1::SessionReply> Pop(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return woken_ || !replies_.empty() || !status_.ok();
    };
    mutex_.AwaitWithDeadline(absl::Condition(&ready), deadline);
    woken_ = false;
    return PopLocked();
  }

  void Wake() {
    absl::MutexLock lock(&mutex_);
    woken_ = true;
  }

  // The first failure stays. Replies that came before it can still be popped.
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = std::move(status);
  }

  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  std::optional<folio::v1::SessionReply> PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (replies_.empty()) return std::nullopt;
    std::optional<folio::v1::SessionReply> reply(std::move(replies_.front()));
    replies_.pop_front();
    return reply;
  }

  mutable absl::Mutex mutex_;
  std::deque<folio::v1::SessionReply> replies_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_REPLY_INBOX_H_
