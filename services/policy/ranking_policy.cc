#include "services/policy/ranking_policy.h"

#include <algorithm>
#include <utility>

#include "services/policy/agreement.h"
#include "services/policy/kept_scores.h"
#include "services/policy/quotas.h"
#include "services/policy/ranking.h"

namespace folio::policy {

Limits RankingPolicy::PrefillLimits(const Limits& limits) const {
  return {limits.budget, limits.sink, std::max(limits.recent, traits().own_recent)};
}

std::vector<float> RankingPolicy::PrefillRanking(LayerGroup layers, const Limits& own) const {
  return Agreed(layers, own.sink.value(), (layers[0].tokens - own.recent).value(),
                [this](const LayerScores& layer) { return TokenScores(layer); });
}

std::vector<float> RankingPolicy::DecodeRanking(LayerGroup layers, const Limits& limits,
                                                BlockRange range, absl::Span<const KeptScores> kept,
                                                uint32_t others) const {
  std::vector<float> ranking;
  if (kept.empty()) {
    ranking = Agreed(layers, range.begin, range.end,
                     [this](const LayerScores& layer) { return BlockScores(layer); });
  } else if (kept.size() == 1) {
    ranking.assign(kept[0].block_scores().begin(), kept[0].block_scores().end());
  } else {
    Agreement agreement(range.begin, range.end);
    for (const KeptScores& layer : kept) agreement.Add(layer.block_scores());
    ranking = std::move(agreement).Take();
  }
  if (HoldsBlocks(layers[0], limits)) HoldBlocks(layers[0], limits, range, others, ranking);
  return ranking;
}

std::vector<TokenSlot> RankingPolicy::SelectPrefill(LayerGroup layers, const Limits& limits) const {
  const Limits own = PrefillLimits(limits);
  std::vector<float> ranking = PrefillRanking(layers, own);
  KeepQuotas(layers[0].stretch_ends, own, own.budget - own.sink - own.recent, ranking);
  return KeepHighest(ranking, own);
}

BlockIndex RankingPolicy::SelectDecode(LayerGroup layers, const Limits& limits,
                                       absl::Span<KeptScores> kept) const {
  const uint32_t page_tokens = layers[0].page_tokens;
  const BlockRange range = Candidates(layers[0].tokens.value() / page_tokens, page_tokens, limits);
  // The scores of a single layer are used where they are kept.
  if (kept.size() == 1 && !HoldsBlocks(layers[0], limits)) {
    return LowestBlock(kept[0].block_scores(), range);
  }
  return LowestBlock(DecodeRanking(layers, limits, range, kept), range);
}

std::vector<float> RankingPolicy::TokenScores(const LayerScores& scores) const {
  return HeadMeans(scores);
}

std::vector<float> RankingPolicy::BlockScores(const LayerScores& scores) const {
  return BlockMeans(HeadMeans(scores), scores.page_tokens);
}

}  // namespace folio::policy
