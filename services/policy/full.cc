#include "services/policy/full.h"

#include "services/common/check.h"

namespace folio::policy {

std::vector<SlotIndex> Full::SelectPrefill(const LayerScores& scores, const Limits&) const {
  std::vector<SlotIndex> keep;
  keep.reserve(scores.tokens.value());
  for (SlotIndex slot(0); slot.value() < scores.tokens.value(); ++slot) keep.push_back(slot);
  return keep;
}

BlockIndex Full::SelectDecode(const LayerScores&, const Limits&) const {
  FOLIO_CHECK(evicts());
  return BlockIndex(0);
}

}  // namespace folio::policy
