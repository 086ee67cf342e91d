#include "services/tracing/span_queue.h"

#include <iterator>
#include <utility>

namespace folio::tracing {

void SpanQueue::Push(std::vector<Span> spans) {
  if (spans.empty()) return;
  bool signal = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (ended_ || spans.size() > most_ - spans_) {
      dropped_ += spans.size();
      return;
    }
    const size_t before = spans_;
    spans_ += spans.size();
    requests_.push_back(std::move(spans));
    // The reader sleeps on while a batch fills up.
    signal = before == 0 || (before < batch_ && spans_ >= batch_);
  }
  if (signal) changed_.SignalAll();
}

std::vector<Span> SpanQueue::Take(absl::Duration delay) {
  std::vector<std::vector<Span>> requests;
  size_t count = 0;
  {
    const absl::MutexLock lock(&mutex_);
    changed_.Await(&mutex_, SteadyTime::InfiniteFuture(),
                   [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ || spans_ > 0; });
    changed_.Await(&mutex_, SteadyNow() + delay, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ended_ || spans_ >= batch_;
    });
    while (count < batch_ && !requests_.empty()) {
      count += requests_.front().size();
      requests.push_back(std::move(requests_.front()));
      requests_.pop_front();
    }
    spans_ -= count;
  }
  std::vector<Span> batch;
  batch.reserve(count);
  for (std::vector<Span>& request : requests) {
    std::move(request.begin(), request.end(), std::back_inserter(batch));
  }
  return batch;
}

void SpanQueue::End() {
  {
    const absl::MutexLock lock(&mutex_);
    ended_ = true;
  }
  changed_.SignalAll();
}

bool SpanQueue::AwaitEnd(SteadyTime deadline) {
  const absl::MutexLock lock(&mutex_);
  return changed_.Await(&mutex_, deadline,
                        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; });
}

}  // namespace folio::tracing
