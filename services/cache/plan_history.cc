#include "services/cache/plan_history.h"

namespace folio::cache {

LayerLoss PlanHistory::LossOf(uint32_t layer, const BlockTable& table,
                              absl::Span<const TokenSlot> keep) {
  const uint32_t resident = table.resident().value();
  const auto kept = static_cast<uint32_t>(keep.size());
  LayerLoss loss = {.layer = layer, .tokens = TokenCount(resident - kept)};
  if (kept == resident) return loss;
  uint32_t first = 0;
  while (first < kept && keep[first].value() == first) ++first;
  uint32_t last = resident - 1;
  for (uint32_t left = kept; left > 0 && keep[left - 1].value() == last; --left) --last;
  loss.begin = table.PositionAt(TokenSlot(first));
  loss.end = table.PositionAt(TokenSlot(last)) + Position(1);
  return loss;
}

LayerLoss PlanHistory::LossOf(uint32_t layer, const BlockTable& table, BlockIndex block,
                              uint32_t page_tokens) {
  const uint32_t first = block.value() * page_tokens;
  return {.layer = layer,
          .tokens = TokenCount(page_tokens),
          .begin = table.PositionAt(TokenSlot(first)),
          .end = table.PositionAt(TokenSlot(first + page_tokens - 1)) + Position(1)};
}

}  // namespace folio::cache
