// Between the RPC edge, which has requests, and the step loop, which runs them. It outlives step
// loops: when the manager is lost the queue closes, and the next loop opens it again.
#ifndef FOLIO_SERVICES_WORKER_REQUEST_QUEUE_H_
#define FOLIO_SERVICES_WORKER_REQUEST_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "folio/v1/inference.pb.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/common/ids.h"

namespace folio::worker {

// A sequence to go on with; its prompt and the rest are the manager's to tell.
struct ResumeRequest {
  SequenceId sequence;
  std::vector<TokenId> received;  // that the client has already
};

// One sequence to run, checked: prompt not empty, ids inside the vocabulary, prompt and
// max_new_tokens together inside the model's context, seed set.
struct SequenceRequest {
  std::vector<TokenId> prompt;
  uint32_t max_new_tokens = 0;  // at least 1
  folio::v1::CacheOptions cache;
  folio::v1::SamplingParams sampling;
  std::string label;
  std::vector<TokenId> targets;  // scoring: the continuation, `max_new_tokens` long; else empty
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int top_logprobs = -1;  // -1: no log-probabilities; n: the chosen token and the n most likely
  bool report_evictions = false;
  std::string resume_token;             // empty: it ends with this worker
  std::optional<ResumeRequest> resume;  // but for the token, all above is the manager's to tell
  absl::Time arrival;
};

// Where a sequence's events go. Called on the step loop's thread, so it must not block; the last
// call is Done, which comes exactly once. With OK, the event before it was `finished`.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  virtual void Event(folio::v1::GenerateResponse event) = 0;
  virtual void Done(absl::Status status) = 0;
};

struct Submission {
  SequenceRequest request;
  ResultSink* sink = nullptr;  // must live until its Done was called
  // UNSPECIFIED until the caller gave up, then why (CANCELLED or DEADLINE).
  std::atomic<folio::v1::CloseReason> cancelled{folio::v1::CLOSE_REASON_UNSPECIFIED};
};

// Thread-safe.
class RequestQueue {
 public:
  // UNAVAILABLE, with the reason, while no step loop takes requests; the sink is then not called.
  absl::Status Push(std::shared_ptr<Submission> submission);
  // The sequence ends at the next step boundary. No-op when it has ended.
  void Cancel(Submission& submission, folio::v1::CloseReason reason);

  // For the step loop. `wake` is called, from any thread, when there is something to look at; not
  // after Close has returned.
  void Open(std::function<void()> wake);
  // Refuses requests with `why` from now on. The waker stays until Close.
  void Refuse(absl::Status why);
  // Refuses, forgets the waker, and returns what nobody has taken.
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

#endif  // FOLIO_SERVICES_WORKER_REQUEST_QUEUE_H_
