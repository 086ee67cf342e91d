// Quotas keep a part of every stretch of the text, so that one ranking over all of it cannot wipe
// out a region. Chunks of a prompt that are ranked by themselves answer more than one ranking over
// the whole (kvpress, ChunkPress around Expected Attention, on RULER).
//
// Three quarters of the budget that no other rule has spoken for are dealt out to the stretches in
// equal parts. A stretch keeps that many of its highest tokens, or all if it has fewer. The last
// quarter, and what stretches leave, goes to the highest of the rest. In decode a stretch whose
// blocks are no more than its part loses none, unless every stretch is like that.
//
// The stretches are by position in the text, and not by slot. Those of the text so far grow with
// it, so that the quotas of a long answer are those of its prompt as well. Cost: one more selection
// over the numbers. The functions are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_POLICY_QUOTAS_H_
#define FOLIO_SERVICES_POLICY_QUOTAS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/policy/policy.h"

namespace folio::policy {

// Raises to +inf the numbers of the tokens that the quotas keep when `by_number` tokens are chosen
// between the first `limits.sink` and the last `limits.recent` by their numbers. Tokens that are at
// +inf already count among the chosen, and in no stretch's quota. Without stretches nothing
// changes.
void KeepQuotas(absl::Span<const TokenSlot> stretch_ends, const Limits& limits,
                TokenCount by_number, std::vector<float>& numbers);

// Raises to +inf the numbers of the blocks of `range` that must stay: those of `limits.held`, and
// those of stretches within their quotas. Any other is finite or -inf afterwards, and at least one
// is. `others` of the blocks that stay do not stay for their numbers, and have no part in quotas.
// Precondition: `range` has a block outside `limits.held`.
void HoldBlocks(const LayerScores& layer, const Limits& limits, BlockRange range, uint32_t others,
                std::vector<float>& numbers);
// Whether HoldBlocks would change anything.
bool HoldsBlocks(const LayerScores& layer, const Limits& limits);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_QUOTAS_H_
