// Delivery turns the tokens of one sequence into the events that its client sees: text, stop
// strings, log-probabilities and the end.
//
// Events of a step are kept until Send, which the step loop calls after the step's commit was sent.
// A client therefore never sees a token that the manager's record could miss, and a failover
// repeats or loses none.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_DELIVERY_H_
#define FOLIO_SERVICES_WORKER_ENGINE_DELIVERY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/events.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/engine/text_stream.h"

namespace folio::worker {

// Thread-compatible. Tokenizer and submission are borrowed.
class Delivery {
 public:
  // Called once, when a sequence finishes, for the statistics of its last event.
  using CacheStatsReader = absl::FunctionRef<CacheStats()>;

  Delivery(const model::Tokenizer* tokenizer, const Submission* submission);

  // Sends Started and begins the text. Call it when the request is complete: a claim fills in the
  // stop strings after the delivery was made.
  void Start(Started started);
  // Sends at once. An eviction is not part of a step's results.
  void Report(Eviction eviction);

  // Adds the events that follow from a step. Take returns true if the sequence is finished.
  void AddProgress(uint32_t done_tokens);
  bool Take(const model::SegmentOutput& output, CacheStatsReader cache);
  // Sends what was added.
  void Send();

  // Takes and sends tokens that another worker sampled, until the sequence is finished or they end.
  // Their log-probabilities are unknown (NaN).
  bool Replay(const std::vector<TokenId>& tokens, CacheStatsReader cache);

  bool finished() const { return finished_; }

 private:
  void HoldToken(const model::SegmentOutput& output);
  // Adds the held tokens as a chunk, less those that the client has received already.
  void AddChunk();
  // Why the token ends the answer although no stop string does, or kUnspecified if it does not.
  FinishReason EndOf(TokenId token) const;
  void AddFinished(FinishReason reason, std::string stop, std::optional<TokenId> stop_token,
                   CacheStatsReader cache);

  const model::Tokenizer* const tokenizer_;
  const Submission* const submission_;
  std::optional<TextStream> text_;  // set by Start
  TokenChunk held_;                 // tokens whose last character is not whole yet
  std::vector<Event> events_;       // of the step that is being collected
  uint32_t progress_ = 0;           // tokens of the prompt that were reported
  uint32_t outputs_ = 0;            // tokens taken
  uint32_t added_ = 0;              // outputs that are in chunks
  bool finished_ = false;
  SteadyTime admitted_, first_token_, newest_token_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_DELIVERY_H_
