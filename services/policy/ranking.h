// These functions take means over scores and select tokens and blocks by them. All scoring policies
// share them, so that equal scores lead to equal choices everywhere.
//
// Scores are ordered as follows. NaN and -inf are lowest, because a token without a valid score is
// useless to attention, and +inf is highest. Large finite values do not overflow. Among equal
// scores the older slot is evicted. The functions are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_POLICY_RANKING_H_
#define FOLIO_SERVICES_POLICY_RANKING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/policy/policy.h"
#include "services/policy/score_rows.h"

namespace folio::policy {

// TokenScore of every token of the layer over the KV heads, and +inf for tokens without a row.
std::vector<float> HeadMeans(const LayerScores& scores);

// The slots that stay when `limits.budget` tokens may stay: the first `sink`, the last `recent`,
// and the highest of those between, in ascending order. `token_scores` must be free of NaN.
std::vector<TokenSlot> KeepHighest(absl::Span<const float> token_scores, const Limits& limits);

// The first `sink` and the last `recent` of `tokens` slots, and those between whose bit is set, in
// ascending order. Bit i is for slot sink + i.
std::vector<TokenSlot> KeepMiddle(absl::Span<const uint64_t> middle, TokenCount tokens,
                                  const Limits& limits);

// The float32 mean of `token_scores` over each whole block, summed by folding the newer half onto
// the older until one value is left.
std::vector<float> BlockMeans(absl::Span<const float> token_scores, uint32_t page_tokens);

// The blocks that decode may drop from a layer of `blocks` full ones, except those that `limits`
// holds among them. They lie behind the blocks of the sinks and before those of the recent tokens.
BlockRange Candidates(uint32_t blocks, uint32_t page_tokens, const Limits& limits);
// Whether there is any.
bool MayDrop(uint32_t blocks, uint32_t page_tokens, const Limits& limits);

// The block of `range` with the lowest score. `range` must not be empty.
BlockIndex LowestBlock(absl::Span<const float> block_scores, BlockRange range);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_RANKING_H_
