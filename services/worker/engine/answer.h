// Answer is what a sequence says: the rules by which its tokens are sampled, and their delivery to
// the client.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_ANSWER_H_
#define FOLIO_SERVICES_WORKER_ENGINE_ANSWER_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/model/executor/executor.h"
#include "services/model/tokenizer/tokenizer.h"
#include "services/worker/engine/delivery.h"
#include "services/worker/engine/events.h"
#include "services/worker/engine/output_rules.h"
#include "services/worker/engine/request_queue.h"

namespace folio::worker {

// Used by the step loop's thread alone. Tokenizer and submission are borrowed.
class Answer {
 public:
  Answer(const model::Tokenizer* tokenizer, const Submission* submission)
      : tokenizer_(tokenizer), submission_(submission), delivery_(tokenizer, submission) {}

  // The client gets `started`. The request is complete, which one that claims a sequence is only
  // when the manager has answered. Errors as OutputRules::Begin.
  absl::Status Start(Started started);

  // Precondition of these three: Start was called. Take adds a token, and Replay adds and sends
  // those that another worker sampled. `cache` is as for Delivery, and errors as for OutputRules.
  absl::Status Take(const model::SegmentOutput& output, Delivery::CacheStatsReader cache);
  absl::Status Replay(const std::vector<TokenId>& tokens, Delivery::CacheStatsReader cache);
  const OutputRules& rules() const { return *rules_; }

  Delivery& delivery() { return delivery_; }

 private:
  const model::Tokenizer* const tokenizer_;
  const Submission* const submission_;
  Delivery delivery_;
  std::optional<OutputRules> rules_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_ANSWER_H_
