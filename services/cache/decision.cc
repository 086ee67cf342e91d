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

std::vector<SlotIndex> All(TokenCount tokens) {
  std::vector<SlotIndex> slots;
  slots.reserve(tokens.value());
  for (uint32_t slot = 0; slot < tokens.value(); ++slot) slots.emplace_back(slot);
  return slots;
}

std::vector<SlotIndex> Keep(const DecisionInput& input, size_t at) {
  const DecisionInput::Layer& layer = input.layers[at];
  if (!layer.over) return All(layer.tokens);
  std::vector<SlotIndex> keep = input.policy->SelectPrefill(input.Scores(at), layer.limits);
  CheckKeep(keep, layer.tokens.value(), layer.limits);
  return keep;
}

std::optional<BlockIndex> Drop(DecisionInput& input, size_t at) {
  const DecisionInput::Layer& layer = input.layers[at];
  if (!layer.over) return std::nullopt;
  policy::LayerScores scores = input.Scores(at);
  if (!input.kept.empty()) {
    scores.kept = &input.kept[at];
    scores.kept->Follow(*input.policy, scores);
  }
  const BlockIndex block = input.policy->SelectDecode(scores, layer.limits);
  const uint32_t first_token = block.value() * input.page_tokens;
  FOLIO_CHECK(first_token >= layer.limits.sink.value());
  FOLIO_CHECK(first_token + input.page_tokens + layer.limits.recent.value() <=
              layer.tokens.value());
  return block;
}

// The newest block of each layer was written on another core; without this, each would be waited
// for in turn.
void FetchNewest(const DecisionInput& input) {
  constexpr size_t kLine = 64 / sizeof(float);
  for (const DecisionInput::Layer& layer : input.layers) {
    if (layer.pages.empty()) continue;
    for (size_t at = 0; at < size_t{input.page_tokens} * input.kv_heads; at += kLine) {
      __builtin_prefetch(layer.pages.back() + at);
    }
  }
}

}  // namespace

policy::LayerScores DecisionInput::Scores(size_t layer) const {
  return {.pages = layers[layer].pages,
          .prompt_pages = layers[layer].prompt_pages,
          .page_tokens = page_tokens,
          .kv_heads = kv_heads,
          .tokens = layers[layer].tokens,
          .scored = layers[layer].scored,
          .layer = LayerIndex(static_cast<uint32_t>(layer)),
          .logical_length = logical_length};
}

Action Decide(DecisionInput& input) {
  FetchNewest(input);
  CompactAction compact;
  DropAction drop;
  for (size_t layer = 0; layer < input.layers.size(); ++layer) {
    if (input.compact) {
      compact.keep.push_back(Keep(input, layer));
      compact.spare.push_back(input.layers[layer].spare);
    } else {
      drop.block.push_back(Drop(input, layer));
    }
  }
  if (!input.compact) return drop;
  return compact;
}

}  // namespace folio::cache
