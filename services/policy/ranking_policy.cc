#include "services/policy/ranking_policy.h"

#include <algorithm>

#include "services/policy/kept_scores.h"
#include "services/policy/ranking.h"

namespace folio::policy {

Limits RankingPolicy::PrefillLimits(const Limits& limits) const {
  return {limits.budget, limits.sink, std::max(limits.recent, traits().own_recent)};
}

std::vector<TokenSlot> RankingPolicy::SelectPrefill(const LayerScores& scores,
                                                    const Limits& limits) const {
  return KeepHighest(TokenScores(scores), PrefillLimits(limits));
}

BlockIndex RankingPolicy::SelectDecode(const LayerScores& scores, const Limits& limits,
                                       KeptScores* kept) const {
  const std::vector<float> computed = kept == nullptr ? BlockScores(scores) : std::vector<float>();
  const absl::Span<const float> blocks =
      kept == nullptr ? absl::MakeConstSpan(computed) : kept->block_scores();
  return LowestBlock(blocks,
                     Candidates(static_cast<uint32_t>(blocks.size()), scores.page_tokens, limits));
}

std::vector<float> RankingPolicy::TokenScores(const LayerScores& scores) const {
  return HeadMeans(scores);
}

std::vector<float> RankingPolicy::BlockScores(const LayerScores& scores) const {
  return BlockMeans(HeadMeans(scores), scores.page_tokens);
}

}  // namespace folio::policy
