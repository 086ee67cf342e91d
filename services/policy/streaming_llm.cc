#include "services/policy/streaming_llm.h"

#include <cstdint>

#include "services/base/check.h"
#include "services/policy/ranking.h"

namespace folio::policy {

std::vector<TokenSlot> StreamingLlm::SelectPrefill(const LayerScores& scores,
                                                   const Limits& limits) const {
  const uint32_t tokens = scores.tokens.value();
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

BlockIndex StreamingLlm::SelectDecode(const LayerScores& scores, const Limits& limits,
                                      KeptScores* /*kept*/) const {
  const uint32_t blocks = scores.tokens.value() / scores.page_tokens;
  return BlockIndex(Candidates(blocks, scores.page_tokens, limits).begin);
}

}  // namespace folio::policy
