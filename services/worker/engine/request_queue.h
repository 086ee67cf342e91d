// RequestQueue passes requests from the RPC threads to the step loop. It outlives step loops: when
// the manager is lost the queue closes, and the next step loop opens it again.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_REQUEST_QUEUE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_REQUEST_QUEUE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/base/session_types.h"
#include "services/worker/engine/events.h"
#include "services/worker/engine/sequence_request.h"

namespace folio::worker {

struct Submission {
  SequenceRequest request;
  ResultSink* sink = nullptr;  // must live until its OnEnd was called
  // Why the caller gave up (kCancelled or kDeadline); kUnspecified while it has not.
  std::atomic<CloseReason> cancelled{CloseReason::kUnspecified};
};

// Thread-safe.
class RequestQueue {
 public:
  // Fails with UNAVAILABLE and the reason while no step loop takes requests; the sink is then not
  // called.
  absl::Status Push(std::shared_ptr<Submission> submission);
  // Ends the sequence at the next step boundary. Does nothing if it has ended.
  void Cancel(Submission& submission, CloseReason reason);

  // The methods below are for the step loop. Open accepts requests; `wake` is called, from any
  // thread, when a request or a cancellation waits, and is not called after Close has returned.
  void Open(std::function<void()> wake);
  // Refuses requests with `why` from now on, but still wakes the step loop for cancellations.
  void Refuse(absl::Status why);
  // Refuses requests, drops `wake`, and returns the requests that were not taken.
  std::vector<std::shared_ptr<Submission>> Close(absl::Status why);
  std::vector<std::shared_ptr<Submission>> Take();
  void Wake();

 private:
  absl::Mutex mutex_;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("the worker is starting");
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Submission>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_REQUEST_QUEUE_H_
