// RequestQueue passes requests from the RPC threads to the step loop, and bounds how many wait. It
// outlives step loops: when the manager is lost the queue closes, and the next step loop opens it
// again.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_REQUEST_QUEUE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_REQUEST_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/worker/engine/events.h"
#include "services/worker/engine/sequence_request.h"

namespace folio::worker {

struct Submission {
  SequenceRequest request;
  ResultSink* sink = nullptr;  // must live until its OnEnd was called
  // Why the caller gave up (kCancelled or kDeadline); kUnspecified while it has not.
  std::atomic<CloseReason> cancelled{CloseReason::kUnspecified};
  // The client does not read, so its sequence computes no further tokens. It keeps its pages.
  std::atomic<bool> paused{false};
  // Used by the step loop's WaitingLine alone.
  struct {
    uint64_t number = 0;  // grows from request to request
    SteadyTime since;
    SteadyTime due;               // see urgency.h
    bool refused_once = false;    // for lack of room
    uint32_t reported_place = 0;  // that the client was told
  } waiting;
};

// Thread-safe.
class RequestQueue {
 public:
  // At most `max_waiting` requests wait at a time.
  explicit RequestQueue(size_t max_waiting = SIZE_MAX) : max_waiting_(max_waiting) {}

  // Fails with UNAVAILABLE and the reason while no step loop takes requests, and with
  // RESOURCE_EXHAUSTED if too many wait already. The sink is then not called.
  absl::Status Push(std::shared_ptr<Submission> submission);
  // Ends the sequence at the next step boundary. Does nothing if it has ended.
  void Cancel(Submission& submission, CloseReason reason);
  // Stops decoding at the next step boundary, or continues it. A few tokens may still come after
  // a pause, because their steps are under way.
  void Pause(Submission& submission);
  void Continue(Submission& submission);

  // The methods below are for the step loop. Open accepts requests; `wake` is called, from any
  // thread, when a request or a cancellation waits, and is not called after Close has returned.
  void Open(std::function<void()> wake);
  // Refuses requests with `why` from now on, but still wakes the step loop for cancellations.
  void Refuse(absl::Status why);
  // Refuses requests, drops `wake`, and returns the requests that were not taken.
  std::vector<std::shared_ptr<Submission>> Close(absl::Status why);
  std::vector<std::shared_ptr<Submission>> Take();
  // The arrival of the oldest request that was not taken. For any thread.
  std::optional<SteadyTime> oldest();
  // More or fewer of the requests that were taken wait now. A request that is pushed waits until
  // this says otherwise.
  void OnWaiting(ptrdiff_t change);
  void Wake();

 private:
  const size_t max_waiting_;

  absl::Mutex mutex_;
  size_t number_waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // here and in the step loop
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("the worker is starting");
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Submission>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_REQUEST_QUEUE_H_
