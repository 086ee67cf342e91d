#include "services/policy/streaming_llm.h"

#include <cstdint>

#include "services/common/check.h"
#include "services/policy/ranking.h"

namespace folio::policy {

std::vector<SlotIndex> StreamingLlm::SelectPrefill(const LayerScores& scores,
                                                   const Limits& limits) const {
  const uint32_t tokens = scores.tokens.value();
  const uint32_t sink = limits.sink.value();
  const uint32_t budget = limits.budget.value();
  FOLIO_CHECK(sink <= budget && budget <= tokens);
  std::vector<SlotIndex> keep;
  keep.reserve(budget);
  for (uint32_t slot = 0; slot < sink; ++slot) keep.push_back(SlotIndex(slot));
  for (uint32_t slot = tokens - (budget - sink); slot < tokens; ++slot) {
    keep.push_back(SlotIndex(slot));
  }
  return keep;
}

BlockIndex StreamingLlm::SelectDecode(const LayerScores& scores, const Limits& limits) const {
  const uint32_t blocks = scores.tokens.value() / scores.page_tokens;
  return BlockIndex(Candidates(blocks, scores.page_tokens, limits).begin);
}

}  // namespace folio::policy
