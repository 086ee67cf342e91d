// SequenceRequest is one sequence to run, after its client's message was checked.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_REQUEST_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/model/tokenizer/grammar.h"
#include "services/wire/output_options.h"
#include "services/worker/engine/sequence_trace.h"

namespace folio::worker {

// The most that a request may ask for. They hold for a client's message and for the record of a
// sequence that is claimed.
inline constexpr uint32_t kMaxTopLogprobs = 20;
inline constexpr int kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 256;
inline constexpr int kMaxStopTokens = 64;

// A sequence of another worker that this one is to continue. The manager's record has its prompt
// and everything else that its first client asked for.
struct ResumeRequest {
  SequenceId sequence;
  std::vector<TokenId> received;           // tokens that the client has already
  std::optional<std::string> tenant = {};  // that must have opened it; any if unset
};

// The prompt is not empty, its ids are inside the vocabulary, prompt and max_new_tokens together
// fit into the model's context, and the seed is set. With `resume` only the resume token and the
// arrival are set until the manager has answered.
struct SequenceRequest {
  std::vector<TokenId> prompt;
  uint32_t max_new_tokens = 0;  // at least 1
  CacheOptionsBytes cache;
  SamplingParameters sampling;
  std::string label;
  std::string tenant;            // see fair_turns.h
  std::vector<TokenId> targets;  // the tokens to score, `max_new_tokens` of them, or none
  // The tokens that the client has of an answer whose sequence is gone. They are computed again as
  // the first ones of this answer.
  std::vector<TokenId> replayed;
  wire::OutputOptions output;
  std::shared_ptr<const model::Grammar> grammar;  // of the format, or null if it is free
  bool report_evictions = false;
  int32_t priority = 0;      // see urgency.h
  std::string resume_token;  // empty if the sequence ends with this worker
  std::optional<ResumeRequest> resume;
  SteadyTime arrival;
  std::shared_ptr<SequenceTrace> trace;  // null unless the request is traced

  uint32_t prompt_tokens() const { return static_cast<uint32_t>(prompt.size()); }
  bool scoring() const { return !targets.empty(); }

  // The first tokens of the answer, which the client has already.
  const std::vector<TokenId>& received() const {
    return resume.has_value() ? resume->received : replayed;
  }

  // The token that output number `number` must be, if it may not be sampled. It is a scored token,
  // or one that the client received although the manager never heard of it.
  std::optional<TokenId> ForcedToken(uint32_t number) const {
    if (scoring()) return targets[number];
    if (number < received().size()) return received()[number];
    return std::nullopt;
  }
};

// OK, or which option of the protocol is out of range for a model with so many tokens.
// CheckMinTokens is apart because an answer's length is known only when its prompt is.
absl::Status CheckOutput(const wire::OutputOptions& output, uint32_t vocab);
absl::Status CheckMinTokens(uint32_t min_tokens, uint32_t max_new_tokens);
absl::Status CheckBiases(const LogitChanges& changes, uint32_t vocab);

// The request as the manager is asked for it. `tag` comes back in the answer, and `prefill_ahead`
// is that of the protocol. OpenOf is for a request without `resume`, ClaimOf for one with it.
OpenSequence OpenOf(uint64_t tag, const SequenceRequest& request, TokenCount prefill_ahead);
ClaimSequence ClaimOf(uint64_t tag, const SequenceRequest& request, TokenCount prefill_ahead);

// The most bytes that the sequence takes in a message to the manager.
size_t MostBytes(const OpenSequence& open);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_REQUEST_H_
