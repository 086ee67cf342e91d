#include "services/cache/decision.h"

#include <utility>

#include "services/base/check.h"

namespace folio::cache {
namespace {

void CheckKeep(const std::vector<TokenSlot>& keep, uint32_t tokens, const policy::Limits& limits) {
  const uint32_t budget = limits.budget.value();
  const uint32_t sink = limits.sink.value();
  const uint32_t recent = limits.recent.value();
  FOLIO_CHECK(keep.size() == budget);
  for (size_t i = 1; i < keep.size(); ++i) FOLIO_CHECK(keep[i - 1] < keep[i]);
  FOLIO_CHECK(keep.back().value() < tokens);
  // The slots ascend, so both ends show that every protected token is there.
  FOLIO_CHECK(sink == 0 || keep[sink - 1].value() == sink - 1);
  FOLIO_CHECK(recent == 0 || keep[budget - recent].value() == tokens - recent);
}

std::vector<TokenSlot> All(TokenCount tokens) {
  std::vector<TokenSlot> slots;
  slots.reserve(tokens.value());
  for (uint32_t slot = 0; slot < tokens.value(); ++slot) slots.emplace_back(slot);
  return slots;
}

std::vector<TokenSlot> SelectSurvivors(const DecisionInput& input, size_t index) {
  const DecisionInput::Layer& layer = input.layers[index];
  if (!layer.over) return All(layer.tokens);
  std::vector<TokenSlot> keep = input.policy->SelectPrefill(input.Scores(index), layer.limits);
  CheckKeep(keep, layer.tokens.value(), layer.limits);
  return keep;
}

std::optional<BlockIndex> SelectBlock(DecisionInput& input, size_t index) {
  const DecisionInput::Layer& layer = input.layers[index];
  if (!layer.over) return std::nullopt;
  const policy::LayerScores scores = input.Scores(index);
  policy::KeptScores* kept = nullptr;
  if (!input.kept.empty()) {
    kept = &input.kept[index];
    kept->Update(*input.policy, scores);
  }
  const BlockIndex block = input.policy->SelectDecode(scores, layer.limits, kept);
  const uint32_t first_token = block.value() * input.page_tokens;
  FOLIO_CHECK(first_token >= layer.limits.sink.value());
  FOLIO_CHECK(first_token + input.page_tokens + layer.limits.recent.value() <=
              layer.tokens.value());
  return block;
}

}  // namespace

policy::LayerScores DecisionInput::Scores(size_t layer) const {
  return {.pages = layers[layer].pages,
          .kept_blocks = layers[layer].kept_blocks,
          .prompt_pages = layers[layer].prompt_pages,
          .page_tokens = page_tokens,
          .kv_heads = kv_heads,
          .tokens = layers[layer].tokens,
          .scored = layers[layer].scored,
          .layer = LayerIndex(static_cast<uint32_t>(layer)),
          .logical_length = logical_length};
}

Action Decide(DecisionInput& input, DecisionThreads& threads) {
  const size_t layers = input.layers.size();
  if (input.compact) {
    CompactAction compact;
    compact.keep.resize(layers);
    threads.Run(static_cast<uint32_t>(layers),
                [&](uint32_t layer) { compact.keep[layer] = SelectSurvivors(input, layer); });
    for (const DecisionInput::Layer& layer : input.layers) compact.spare.push_back(layer.spare);
    return compact;
  }
  // A block is chosen in less time than it takes to wake a thread.
  DropAction drop;
  drop.block.reserve(layers);
  for (size_t layer = 0; layer < layers; ++layer) drop.block.push_back(SelectBlock(input, layer));
  return drop;
}

}  // namespace folio::cache
