// Generation carries out one call for text: it starts the choices at a worker, and makes the answer
// of their events, whole or as a stream.
#ifndef FOLIO_SERVICES_GATEWAY_GENERATION_H_
#define FOLIO_SERVICES_GATEWAY_GENERATION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/client/call.h"
#include "services/client/kept_positions.h"
#include "services/client/read_gate.h"
#include "services/client/streams.h"
#include "services/gateway/api_request.h"
#include "services/gateway/gateway_metrics.h"
#include "services/gateway/openai/answer.h"
#include "services/gateway/openai/call.h"
#include "services/gateway/openai/tool_calls.h"
#include "services/gateway/workers/worker_set.h"

namespace folio::gateway {

// It lives until its last choice has ended. If the client leaves, all choices are cancelled. If the
// client does not read, they stand still. Thread-safe.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // The set and the metrics are borrowed. `ended` is called last.
  Generation(WorkerSet* workers, GatewayMetrics* metrics, std::unique_ptr<ApiRequest> request,
             Call call, WorkerSet::Lease lease, std::function<void(Generation*)> ended);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Once. `resume` and `replay` are those of CallOptions.
  void Start(absl::Duration resume, bool replay);
  // Ends it with this status, which is not OK.
  void Cancel(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Listener;

  // A choice while it runs.
  struct Running {
    Choice choice;     // text and logprobs only if the answer is whole
    size_t chars = 0;  // of the text so far
    ToolCallReader tools;
    std::vector<folio::v1::TokenLogprob> unsent;  // of tokens that no event has told of
    std::optional<client::KeptPositions> kept;
    bool named = false;  // the first piece of a forced tool call was sent
  };

  void OnEvent(size_t index, const folio::v1::GenerateResponse& event) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnResumed(size_t lost) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnReplayed() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd(size_t index, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  void OnStarted(size_t index, const folio::v1::Started& started)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnChunk(size_t index, const folio::v1::TokenChunk& chunk)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFinished(size_t index, const folio::v1::Finished& finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnEviction(size_t index, const folio::v1::EvictionEvent& event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Parts of OnChunk and OnFinished.
  void SendText(size_t index, absl::string_view text, Logprobs logprobs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeFound(size_t index, ToolCallReader::Found found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendCall(size_t index, const ToolCallPiece& piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendForced(size_t index, absl::string_view arguments) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const std::string& events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const TokenUsage* EachUsage() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  WorkerSet* const workers_;
  GatewayMetrics* const metrics_;
  const Call call_;
  const WorkerSet::Lease lease_;
  const std::function<void(Generation*)> ended_;
  const client::Cancellation cancellation_;
  const client::ReadGate gate_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // constant after Start

  absl::Mutex mutex_;
  std::unique_ptr<ApiRequest> request_ ABSL_GUARDED_BY(mutex_);
  const AnswerWriter writer_;
  std::vector<Running> running_ ABSL_GUARDED_BY(mutex_);
  TokenUsage usage_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_);         // choices that have not ended
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;  // a stream's head was sent
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_GENERATION_H_
