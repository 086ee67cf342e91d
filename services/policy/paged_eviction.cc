#include "services/policy/paged_eviction.h"

#include "services/policy/ranking.h"

namespace folio::policy {

std::vector<SlotIndex> PagedEviction::SelectPrefill(const LayerScores& scores,
                                                    const Limits& limits) const {
  return KeepHighest(TokenScores(scores), limits);
}

BlockIndex PagedEviction::SelectDecode(const LayerScores& scores, const Limits& limits) const {
  return LowestBlock(scores, limits);
}

}  // namespace folio::policy
