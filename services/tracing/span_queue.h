// SpanQueue holds the spans that wait to be exported. It is bounded: spans for which there is no
// room are dropped and counted, so that those who push never wait for a collector.
#ifndef FOLIO_SERVICES_TRACING_SPAN_QUEUE_H_
#define FOLIO_SERVICES_TRACING_SPAN_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/base/steady_wait.h"
#include "services/tracing/span.h"

namespace folio::tracing {

// Thread-safe.
class SpanQueue {
 public:
  // Up to `most` spans wait. A batch is full when it has `batch` of them.
  SpanQueue(size_t most, size_t batch) : most_(most), batch_(batch) {}

  // Takes the spans of one request, or drops all of them if there is no room or End was called.
  void Push(std::vector<Span> spans) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until a batch is full, or `delay` has passed since there was something to take. The last
  // request of a batch may make it larger. Empty when all was taken after End.
  std::vector<Span> Take(absl::Duration delay) ABSL_LOCKS_EXCLUDED(mutex_);
  // No more spans come.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for End. False if it has not come at the deadline.
  bool AwaitEnd(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t dropped() const { return dropped_; }

 private:
  const size_t most_;
  const size_t batch_;
  std::atomic<uint64_t> dropped_ = 0;
  absl::Mutex mutex_;
  SteadyCondVar changed_;
  std::deque<std::vector<Span>> requests_ ABSL_GUARDED_BY(mutex_);
  size_t spans_ ABSL_GUARDED_BY(mutex_) = 0;  // of all of them
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace folio::tracing

#endif  // FOLIO_SERVICES_TRACING_SPAN_QUEUE_H_
