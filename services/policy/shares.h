// Shares reserve parts of a sequence's budget for parts of its text. A policy chooses among the
// rest. They matter more than the score: reserving a tenth of the cache for each end of the prompt
// brings back most of what policies without it lose (arXiv 2605.18053). All are 0 or 1 unless a
// request asks, because the papers' policies do not have them. Folio's own policy has a share for
// the prompt.
//
// A share is rounded to the nearest number of pages and is at least one page. Shares cost next to
// nothing in a decision. Quotas cost one more selection over the tokens or blocks, and a search for
// the end of each stretch in each layer's block table.
// The functions are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_POLICY_SHARES_H_
#define FOLIO_SERVICES_POLICY_SHARES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/policy/policy.h"

namespace folio::policy {

struct Shares {
  // Decode takes no block of the prompt once the prompt holds no more than this share of the
  // budget. In [0, 0.9].
  float prompt = 0;
  // This share of the budget stays at each end of the prompt. In [0, 0.4].
  float ends = 0;
  // The text is cut into so many stretches of the same length, each with a quota (quotas.h). From 1
  // to 64, where 1 means none.
  uint32_t segments = 1;

  bool operator==(const Shares&) const = default;
};

// INVALID_ARGUMENT names the field and its range, or says that the policy does not take it: shares
// need one that evicts, quotas one that ranks. Together with the policy's representatives they may
// take 95 % of a budget.
absl::Status CheckShares(const Shares& shares, const PolicyTraits& policy);

// The share for the prompt that `policy` has where a request names none: its own, or as much of it
// as `recent` leaves. `budget` is the smallest of the layers' budgets.
float DefaultPromptShare(const PolicyTraits& policy, TokenCount recent, TokenCount budget);

// The pages of a share of `budget`. Precondition: `page_tokens` > 0.
uint32_t SharePages(float share, TokenCount budget, uint32_t page_tokens);

// `limits` with the ends of a prompt protected, for its compaction. In a compaction before its end,
// the end is where it stands.
Limits CompactionLimits(const Limits& limits, const Shares& shares, uint32_t page_tokens);

// `limits` for a decision in decode, of a layer that still has `prompt` tokens of the prompt. A
// block that holds any of them is a block of the prompt.
Limits DecodeLimits(const Limits& limits, const Shares& shares, TokenCount prompt,
                    uint32_t page_tokens);

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_SHARES_H_
