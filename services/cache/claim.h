// A sequence that outlives its worker: what the next one asks with, and what it needs to go on.
// Plain values.
#ifndef FOLIO_SERVICES_CACHE_CLAIM_H_
#define FOLIO_SERVICES_CACHE_CLAIM_H_

#include <optional>
#include <string>
#include <vector>

#include "services/cache/coordinator_types.h"
#include "services/common/ids.h"
#include "services/policy/policy.h"

namespace folio::cache {

struct ClaimRequest {
  WorkerId worker;
  SequenceId sequence;
  std::string resume_token;
};

// The record as of the last commit and acknowledgement. A lost worker may have gone further: K, V
// and scores behind `logical_length` mean nothing.
struct Claimed {
  SequenceId sequence;
  LeaseEpoch lease_epoch;  // one more than the last worker's
  policy::CacheConfig cache;
  SamplingRecord sampling;
  std::string label;
  std::string output;           // as opened
  std::vector<TokenId> tokens;  // prompt and sampled
  TokenCount prompt_tokens;     // of `tokens`
  TokenCount max_new_tokens;
  TokenCount logical_length;
  std::vector<LayerTableInfo> layers;
  PageCount evicted_pages;
  policy::ScoreNeed scores;
  policy::ScoreNeed prompt_scores;
  // Not acknowledged yet; always a DropAction.
  std::optional<Plan> plan;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_CLAIM_H_
