#include "services/policy/full.h"

#include "services/base/check.h"

namespace folio::policy {

std::vector<TokenSlot> Full::SelectPrefill(LayerGroup layers, const Limits&) const {
  std::vector<TokenSlot> keep;
  const TokenCount tokens = layers[0].tokens;
  keep.reserve(tokens.value());
  for (TokenSlot slot(0); slot.value() < tokens.value(); ++slot) keep.push_back(slot);
  return keep;
}

BlockIndex Full::SelectDecode(LayerGroup, const Limits&, absl::Span<KeptScores>) const {
  FOLIO_CHECK(traits().evicts);
  return BlockIndex(0);
}

}  // namespace folio::policy
