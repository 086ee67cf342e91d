// Sequence is one running request of the step loop: the request, its state in the steps, and the
// delivery of its tokens. Only the step loop's thread uses it.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/model/executor/block_tables.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/answer.h"
#include "services/worker/engine/request_queue.h"
#include "services/worker/engine/sequence_state.h"
#include "services/worker/engine/survivors.h"

namespace folio::worker {

// CacheCounters are what is known of one sequence's cache beyond its block tables.
struct CacheCounters {
  uint32_t peak_tokens = 0;  // of the layer that held most
  uint32_t peak_pages = 0;   // over all layers, as are evicted pages
  uint32_t evicted_pages = 0;
  uint32_t plans = 0;
  // Plans that the client was told of. It is not told again when the sequence is computed again.
  uint32_t reported_plans = 0;
  Survivors survivors;  // of the compactions of its prompt
};

class Sequence {
 public:
  // Borrows the tokenizer. `tag` names the sequence to the manager until it has an id.
  Sequence(uint64_t tag, std::shared_ptr<Submission> submission, const model::Tokenizer* tokenizer)
      : tag_(tag), submission_(std::move(submission)), answer_(tokenizer, submission_.get()) {}

  uint64_t tag() const { return tag_; }
  const std::shared_ptr<Submission>& submission() const { return submission_; }
  const SequenceRequest& request() const { return submission_->request; }
  SequenceState& state() { return state_; }
  const SequenceState& state() const { return state_; }
  Answer& answer() { return answer_; }
  const Answer& answer() const { return answer_; }
  CacheCounters& counters() { return counters_; }
  CloseReason close_reason() const { return close_reason_; }

  // The statistics of its cache, whose block tables these are.
  CacheStats CacheStatsOf(const model::BlockTables& table) const;

  // For how long the client has not read, as far as this was called meanwhile.
  absl::Duration NotePause(SteadyTime now);

  // The client gets `status` now; the pages go back when no step can touch them. Does nothing if
  // the sequence has ended already.
  void End(CloseReason reason, const absl::Status& status);

 private:
  const uint64_t tag_;
  const std::shared_ptr<Submission> submission_;
  SequenceState state_;
  Answer answer_;
  CacheCounters counters_;
  std::optional<SteadyTime> paused_since_;
  CloseReason close_reason_ = CloseReason::kUnspecified;
};

// Oldest first.
using SequenceList = std::vector<std::unique_ptr<Sequence>>;

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_H_
