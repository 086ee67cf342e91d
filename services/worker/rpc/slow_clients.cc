#include "services/worker/rpc/slow_clients.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

namespace folio::worker {

struct SlowClients::Call {
  // Both are guarded by SlowClients::mutex_, as is the membership in watched_.
  SteadyTime deadline;
  size_t bytes = 0;

  // Cancelling a call may run the call's last callback on the same thread, which ends the watching.
  // So the mutex is recursive, and it is not the one above, which callbacks of other calls need.
  std::recursive_mutex cancelling;
  grpc::CallbackServerContext* context =
      nullptr;  // guarded by `cancelling`; null once it has ended
};

bool SlowClients::ByDeadline::operator()(const std::shared_ptr<Call>& a,
                                         const std::shared_ptr<Call>& b) const {
  if (a->deadline != b->deadline) return a->deadline < b->deadline;
  return std::less<>()(a.get(), b.get());
}

SlowClients::Watch::Watch(SlowClients* clients, grpc::CallbackServerContext* context)
    : clients_(clients), call_(std::make_shared<Call>()) {
  call_->context = context;
}

SlowClients::Watch::~Watch() {
  Stop();
  const std::lock_guard<std::recursive_mutex> lock(call_->cancelling);
  call_->context = nullptr;
}

void SlowClients::Watch::Start(size_t bytes) {
  if (clients_->timeout_ == absl::ZeroDuration()) return;
  const absl::MutexLock lock(&clients_->mutex_);
  clients_->Forget(call_);
  call_->deadline = SteadyNow() + clients_->timeout_;
  call_->bytes = bytes;
  clients_->watched_.insert(call_);
  clients_->unread_bytes_ += bytes;
  // Every deadline is later than those before it, so the thread has to look only at the first,
  // unless there is too much.
  if (clients_->watched_.size() == 1 || clients_->crowded()) clients_->changed_.SignalAll();
}

void SlowClients::Watch::Stop() {
  const absl::MutexLock lock(&clients_->mutex_);
  clients_->Forget(call_);
}

SlowClients::SlowClients(absl::Duration timeout, std::function<void()> ended)
    : timeout_(timeout), ended_(std::move(ended)) {
  if (timeout_ > absl::ZeroDuration()) thread_ = std::thread([this] { Run(); });
}

SlowClients::~SlowClients() {
  {
    const absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void SlowClients::Forget(const std::shared_ptr<Call>& call) {
  if (watched_.erase(call) > 0) unread_bytes_ -= call->bytes;
}

std::pair<std::shared_ptr<SlowClients::Call>, SteadyTime> SlowClients::Next() const {
  const std::shared_ptr<Call>& first = *watched_.begin();
  if (crowded()) {
    for (const std::shared_ptr<Call>& call : watched_) {
      if (call->bytes == 0 || call->bytes == unread_bytes_) continue;
      const SteadyTime due = call->deadline - timeout_ + std::min(timeout_, kUnreadGrace);
      if (due < first->deadline) return {call, due};
      break;
    }
  }
  return {first, first->deadline};
}

void SlowClients::Run() {
  const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || !watched_.empty();
  };
  mutex_.Lock();
  for (;;) {
    changed_.Await(&mutex_, SteadyTime::InfiniteFuture(), some);
    if (stop_) break;
    const auto [call, due] = Next();
    if (SteadyNow() < due) {
      const bool crowded_before = crowded();
      changed_.Await(&mutex_, due, [this, crowded_before]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || crowded() != crowded_before;
      });
      continue;
    }
    Forget(call);
    mutex_.Unlock();
    {
      const std::lock_guard<std::recursive_mutex> cancelling(call->cancelling);
      if (call->context != nullptr) {
        ended_();
        call->context->TryCancel();
      }
    }
    mutex_.Lock();
  }
  mutex_.Unlock();
}

}  // namespace folio::worker
