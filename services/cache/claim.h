// ClaimRequest is how a worker asks for a sequence whose own worker was lost, and Claimed is all it
// needs to continue that sequence. Both are plain values.
#ifndef FOLIO_SERVICES_CACHE_CLAIM_H_
#define FOLIO_SERVICES_CACHE_CLAIM_H_

#include <optional>
#include <string>
#include <vector>

#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/coordinator_types.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

struct ClaimRequest {
  WorkerId worker;
  SequenceId sequence;
  std::string resume_token;
  WorkerAbilities abilities = {};
  std::optional<std::string> tenant = {};  // that must have opened it; any if unset
};

// The record as of the last commit and acknowledgement. A lost worker may have written further, so
// K, V and scores behind `logical_length` have no meaning.
struct Claimed {
  SequenceId sequence;
  LeaseEpoch lease_epoch;     // one more than the last worker's
  policy::CacheConfig cache;  // as it was opened, because it tells where the prompt stops
  SamplingRecord sampling;
  std::string label;
  std::string tenant;
  int32_t priority = 0;         // see urgency.h
  std::string output;           // as opened
  std::vector<TokenId> tokens;  // prompt and sampled
  TokenCount prompt_tokens;     // of `tokens`
  TokenCount max_new_tokens;
  TokenCount logical_length;
  std::vector<LayerTableInfo> layers;  // with `slots` to be copied to the pages if it was swapped
  PageCount evicted_pages;
  ScoreNeed scores;
  ScoreNeed prompt_scores;
  LayerRange scored_layers;
  // Not acknowledged yet. Always a DropAction.
  std::optional<Plan> plan;
  std::vector<SequenceId> ended;  // orphans that made room for it, if it was parked
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_CLAIM_H_
