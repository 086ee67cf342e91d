// Means over scores, and selection by them, in the one way that all scoring policies share.
//
// Order of scores: NaN and -inf are lowest (a token whose score is no number is of no use to
// attention), +inf is highest, large finite values do not overflow. Ties break towards the older
// slot being evicted. Pure functions; any thread.
#ifndef FOLIO_SERVICES_POLICY_RANKING_H_
#define FOLIO_SERVICES_POLICY_RANKING_H_

#include <vector>

#include "absl/types/span.h"
#include "services/common/ids.h"
#include "services/policy/policy.h"

namespace folio::policy {

// Float32 mean of one token's scores over the KV heads, summed from the first head on; never NaN.
float TokenScore(absl::Span<const float> row);

// TokenScore of every token of the layer.
std::vector<float> TokenScores(const LayerScores& scores);

// The slots that stay when `limits.budget` tokens may: the first `sink`, the last `recent`, and the
// highest of those between. Ascending. `token_scores` must hold no NaN.
std::vector<SlotIndex> KeepHighest(absl::Span<const float> token_scores, const Limits& limits);

// The candidate block of the lowest mean score; candidates lie behind the sinks' blocks and before
// the recent ones'. Only whole blocks count. A block's mean is the float32 mean of its TokenScores,
// summed by folding the newer half onto the older until one value is left.
BlockIndex LowestBlock(const LayerScores& scores, const Limits& limits);

// Blocks [begin, end) that decode may drop from a layer of `blocks` full ones.
struct BlockRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};
BlockRange Candidates(uint32_t blocks, uint32_t page_tokens, const Limits& limits);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_RANKING_H_
