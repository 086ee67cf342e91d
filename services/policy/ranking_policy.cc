#include "services/policy/ranking_policy.h"

#include <algorithm>

#include "services/policy/kept_scores.h"
#include "services/policy/ranking.h"

namespace folio::policy {

Limits RankingPolicy::PrefillLimits(const Limits& limits) const {
  return {limits.budget, limits.sink, std::max(limits.recent, own_recent())};
}

std::vector<SlotIndex> RankingPolicy::SelectPrefill(const LayerScores& scores,
                                                    const Limits& limits) const {
  return KeepHighest(TokenScores(scores), PrefillLimits(limits));
}

BlockIndex RankingPolicy::SelectDecode(const LayerScores& scores, const Limits& limits) const {
  const std::vector<float> read =
      scores.kept == nullptr ? BlockScores(scores) : std::vector<float>();
  const absl::Span<const float> blocks =
      scores.kept == nullptr ? absl::MakeConstSpan(read) : scores.kept->block_scores();
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
