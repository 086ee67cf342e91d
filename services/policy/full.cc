#include "services/policy/full.h"

#include "services/base/check.h"

namespace folio::policy {

std::vector<TokenSlot> Full::SelectPrefill(const LayerScores& scores, const Limits&) const {
  std::vector<TokenSlot> keep;
  keep.reserve(scores.tokens.value());
  for (TokenSlot slot(0); slot.value() < scores.tokens.value(); ++slot) keep.push_back(slot);
  return keep;
}

BlockIndex Full::SelectDecode(const LayerScores&, const Limits&, KeptScores*) const {
  FOLIO_CHECK(traits().evicts);
  return BlockIndex(0);
}

}  // namespace folio::policy
