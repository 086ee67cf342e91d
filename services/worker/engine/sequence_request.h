// SequenceRequest is one sequence to run, after its client's message was checked.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_REQUEST_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"

namespace folio::worker {

// A sequence of another worker that this one is to continue. The manager's record has its prompt
// and everything else that its first client asked for.
struct ResumeRequest {
  SequenceId sequence;
  std::vector<TokenId> received;  // tokens that the client has already
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
  std::vector<TokenId> targets;  // the tokens to score, `max_new_tokens` of them, or none
  std::vector<std::string> stop;
  bool ignore_eos = false;
  // -1 for no log-probabilities, else those of the chosen token and of the n most likely ones.
  int top_logprobs = -1;
  bool report_evictions = false;
  std::string resume_token;  // empty if the sequence ends with this worker
  std::optional<ResumeRequest> resume;
  absl::Time arrival;

  uint32_t prompt_tokens() const { return static_cast<uint32_t>(prompt.size()); }
  bool scoring() const { return !targets.empty(); }

  // The token that output number `output` must be, if it may not be sampled. It is a scored token,
  // or one that the client of a resumed sequence received although the manager never heard of it.
  std::optional<TokenId> ForcedToken(uint32_t output) const {
    if (scoring()) return targets[output];
    if (resume.has_value() && output < resume->received.size()) return resume->received[output];
    return std::nullopt;
  }
};

// The request as the manager is asked for it. `tag` comes back in the answer. OpenOf is for a
// request without `resume`, ClaimOf for one with it.
OpenSequence OpenOf(uint64_t tag, const SequenceRequest& request);
ClaimSequence ClaimOf(uint64_t tag, const SequenceRequest& request);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SEQUENCE_REQUEST_H_
