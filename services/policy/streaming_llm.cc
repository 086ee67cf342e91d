#include "services/policy/streaming_llm.h"

#include <cstdint>

#include "services/base/check.h"
#include "services/policy/ranking.h"

namespace folio::policy {

std::vector<TokenSlot> StreamingLlm::SelectPrefill(LayerGroup layers, const Limits& limits) const {
  const uint32_t tokens = layers[0].tokens.value();
  const uint32_t sink = limits.sink.value();
  const uint32_t budget = limits.budget.value();
  FOLIO_CHECK(sink <= budget && budget <= tokens);
  std::vector<TokenSlot> keep;
  keep.reserve(budget);
  for (uint32_t slot = 0; slot < sink; ++slot) keep.push_back(TokenSlot(slot));
  for (uint32_t slot = tokens - (budget - sink); slot < tokens; ++slot) {
    keep.push_back(TokenSlot(slot));
  }
  return keep;
}

BlockIndex StreamingLlm::SelectDecode(LayerGroup layers, const Limits& limits,
                                      absl::Span<KeptScores> /*kept*/) const {
  const uint32_t blocks = layers[0].tokens.value() / layers[0].page_tokens;
  const uint32_t oldest = Candidates(blocks, layers[0].page_tokens, limits).begin;
  return BlockIndex(limits.held.contains(oldest) ? limits.held.end : oldest);
}

}  // namespace folio::policy
