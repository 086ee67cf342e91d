// ReplyInbox holds the replies of a link until the step loop takes them, and the reason why the
// link ended. Thread-safe.
#ifndef FOLIO_SERVICES_WORKER_LINK_REPLY_INBOX_H_
#define FOLIO_SERVICES_WORKER_LINK_REPLY_INBOX_H_

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"

namespace folio::worker {

class ReplyInbox {
 public:
  void Push(SessionReply reply) {
    absl::MutexLock lock(&mutex_);
    replies_.push_back(std::move(reply));
    changed_.SignalAll();
  }

  std::optional<SessionReply> TryPop() {
    absl::MutexLock lock(&mutex_);
    return PopLocked();
  }

  // Waits for a reply, Wake, Fail or `deadline`.
  std::optional<SessionReply> Pop(SteadyTime deadline) {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return woken_ || !replies_.empty() || !status_.ok();
    };
    changed_.Await(&mutex_, deadline, ready);
    woken_ = false;
    return PopLocked();
  }

  void Wake() {
    absl::MutexLock lock(&mutex_);
    woken_ = true;
    changed_.SignalAll();
  }

  // Only the first failure counts. Replies that came before it can still be popped.
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = std::move(status);
    changed_.SignalAll();
  }

  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  std::optional<SessionReply> PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (replies_.empty()) return std::nullopt;
    std::optional<SessionReply> reply(std::move(replies_.front()));
    replies_.pop_front();
    return reply;
  }

  mutable absl::Mutex mutex_;
  SteadyCondVar changed_;
  std::deque<SessionReply> replies_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_LINK_REPLY_INBOX_H_
