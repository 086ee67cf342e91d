#include "services/cache/decision.h"

#include <utility>

#include "services/common/check.h"

namespace folio::cache {
namespace {

void CheckKeep(const std::vector<SlotIndex>& keep, uint32_t tokens, const policy::Limits& limits) {
  const uint32_t budget = limits.budget.value();
  const uint32_t sink = limits.sink.value();
  const uint32_t recent = limits.recent.value();
  FOLIO_CHECK(keep.size() == budget);
  for (size_t i = 1; i < keep.size(); ++i) FOLIO_CHECK(keep[i - 1] < keep[i]);
  FOLIO_CHECK(keep.back().value() < tokens);
  // Ascending, so the ends tell that everything protected is there.
  FOLIO_CHECK(sink == 0 || keep[sink - 1].value() == sink - 1);
  FOLIO_CHECK(recent == 0 || keep[budget - recent].value() == tokens - recent);
}

}  // namespace

Action Decide(const DecisionInput& input) {
  CompactAction compact;
  DropAction drop;
  for (const DecisionInput::Layer& layer : input.layers) {
    const policy::LayerScores scores{layer.pages, input.page_tokens, input.kv_heads, layer.tokens};
    if (input.compact) {
      compact.keep.push_back(input.policy->SelectPrefill(scores, input.limits));
      CheckKeep(compact.keep.back(), layer.tokens.value(), input.limits);
    } else {
      drop.block.push_back(input.policy->SelectDecode(scores, input.limits));
      const uint32_t first_token = drop.block.back().value() * input.page_tokens;
      FOLIO_CHECK(first_token >= input.limits.sink.value());
      FOLIO_CHECK(first_token + input.page_tokens + input.limits.recent.value() <=
                  layer.tokens.value());
    }
  }
  if (!input.compact) return drop;
  compact.spare = input.spare;
  return compact;
}

}  // namespace folio::cache
