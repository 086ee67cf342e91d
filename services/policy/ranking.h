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

// Float32 mean of one token's scores, summed from the first on; never NaN.
float TokenScore(absl::Span<const float> row);

// TokenScore of every token of the layer over the KV heads; +inf for those without a row.
std::vector<float> HeadMeans(const LayerScores& scores);

// The slots that stay when `limits.budget` tokens may: the first `sink`, the last `recent`, and the
// highest of those between. Ascending. `token_scores` must hold no NaN.
std::vector<SlotIndex> KeepHighest(absl::Span<const float> token_scores, const Limits& limits);

// The mean of `token_scores` over each whole block: a float32 mean, summed by folding the newer
// half onto the older until one value is left.
std::vector<float> BlockMeans(absl::Span<const float> token_scores, uint32_t page_tokens);

// Blocks [begin, end) that decode may drop from a layer of `blocks` full ones: behind the sinks'
// blocks and before the recent ones'.
struct BlockRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};
BlockRange Candidates(uint32_t blocks, uint32_t page_tokens, const Limits& limits);

// The one of `range`, which must not be empty, that scores lowest.
BlockIndex LowestBlock(absl::Span<const float> block_scores, BlockRange range);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_RANKING_H_
