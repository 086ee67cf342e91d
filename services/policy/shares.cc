#include "services/policy/shares.h"

#include <algorithm>
#include <cmath>

#include "services/base/invalid_argument.h"

namespace folio::policy {
namespace {

constexpr float kMostPrompt = 0.9F;
constexpr float kMostEnds = 0.4F;
constexpr uint32_t kMostSegments = 64;
// With more, the smallest budget would be hundreds of pages.
constexpr float kMostTogether = 0.95F;

// Written so that NaN fails too.
bool Within(float share, float most) { return share >= 0 && share <= most; }

TokenCount AtLeast(TokenCount tokens, uint32_t pages, uint32_t page_tokens) {
  return std::max(tokens, TokenCount(pages * page_tokens));
}

}  // namespace

absl::Status CheckShares(const Shares& shares, const PolicyTraits& policy) {
  if (!Within(shares.prompt, kMostPrompt)) {
    return InvalidArgument("prompt_share ", shares.prompt, " must be at least 0 and at most ",
                           kMostPrompt);
  }
  if (!Within(shares.ends, kMostEnds)) {
    return InvalidArgument("protect_ends ", shares.ends, " must be at least 0 and at most ",
                           kMostEnds);
  }
  if (shares.segments < 1 || shares.segments > kMostSegments) {
    return InvalidArgument("segments ", shares.segments, " must be at least 1 and at most ",
                           kMostSegments);
  }
  if (shares == Shares{}) return absl::OkStatus();
  if (!policy.evicts) {
    return InvalidArgument("prompt_share, protect_ends and segments do not go with policy ",
                           policy.name,
                           ", which keeps every token: leave them out or choose a policy that "
                           "evicts");
  }
  if (shares.segments > 1 && !policy.ranks) {
    return InvalidArgument("segments ", shares.segments, " does not go with policy ", policy.name,
                           ", which ranks no tokens: leave segments out or choose a policy that "
                           "does");
  }
  const float own = std::max(shares.prompt, 2 * shares.ends);
  const float all = own + policy.representative_share;
  if (own == 0 || all <= kMostTogether) return absl::OkStatus();
  return InvalidArgument("prompt_share, protect_ends at both ends and the policy's own share take ",
                         all, " of the budget: leave them no more than ", kMostTogether);
}

float DefaultPromptShare(const PolicyTraits& policy, TokenCount recent, TokenCount budget) {
  if (recent >= budget) return 0;
  const auto left = static_cast<float>(budget.value() - recent.value());
  return std::min(policy.prompt_share, left / static_cast<float>(budget.value()));
}

uint32_t SharePages(float share, TokenCount budget, uint32_t page_tokens) {
  if (share == 0) return 0;
  const double pages = double{share} * budget.value() / page_tokens;
  return std::max(static_cast<uint32_t>(std::lround(pages)), uint32_t{1});
}

Limits CompactionLimits(const Limits& limits, const Shares& shares, uint32_t page_tokens) {
  const uint32_t end = SharePages(shares.ends, limits.budget, page_tokens);
  Limits own = limits;
  own.sink = AtLeast(limits.sink, end, page_tokens);
  own.recent = AtLeast(limits.recent, end, page_tokens);
  return own;
}

Limits DecodeLimits(const Limits& limits, const Shares& shares, TokenCount prompt,
                    uint32_t page_tokens) {
  const uint32_t end = SharePages(shares.ends, limits.budget, page_tokens);
  const uint32_t share = SharePages(shares.prompt, limits.budget, page_tokens);
  const uint32_t blocks = (prompt.value() + page_tokens - 1) / page_tokens;
  Limits own = limits;
  if (blocks <= std::max(share, 2 * end)) {
    own.sink = AtLeast(limits.sink, blocks, page_tokens);
  } else {
    own.sink = AtLeast(limits.sink, end, page_tokens);
    own.held = {blocks - end, blocks};
  }
  return own;
}

}  // namespace folio::policy
