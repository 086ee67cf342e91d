// CrushTokens chooses single tokens as KVCrush does after prefill (see kv_crush.h). A prompt has
// thousands of them, so the tokens' bits are kept as planes of words, one for each KV head, and 64
// tokens are counted at a time. Pure, so any thread may call.
#ifndef FOLIO_SERVICES_POLICY_CRUSH_TOKENS_H_
#define FOLIO_SERVICES_POLICY_CRUSH_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/policy/crush_anchor.h"
#include "services/policy/policy.h"

namespace folio::policy {

// `token_scores` has a score for each unprotected token, from slot `begin` on. The `lowest` tokens
// by them are candidates, and `reps` of these stay with the others. They are compared by the KV
// heads of all layers. Returns those that stay as bits, bit i for slot begin + i.
// `reps` <= `lowest` <= token_scores.size().
std::vector<uint64_t> RepresentedTokens(LayerGroup layers, uint32_t begin,
                                        absl::Span<const float> token_scores, uint32_t lowest,
                                        uint32_t reps, CrushAnchor anchor, uint64_t seed);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_CRUSH_TOKENS_H_
