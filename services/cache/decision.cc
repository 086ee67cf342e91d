#include "services/cache/decision.h"

#include <algorithm>
#include <optional>

#include "services/base/check.h"
#include "services/base/steady_time.h"

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

// The layers [begin, end), which decide together: one layer, or all of them.
struct Group {
  uint32_t begin;
  uint32_t end;
};

std::vector<TokenSlot> SelectSurvivors(const DecisionInput& input, policy::LayerGroup scores,
                                       const DecisionInput::Layer& layer) {
  if (!layer.over) return All(layer.tokens);
  std::vector<TokenSlot> keep = input.policy->SelectPrefill(scores, layer.limits);
  CheckKeep(keep, layer.tokens.value(), layer.limits);
  return keep;
}

std::optional<BlockIndex> SelectBlock(DecisionInput& input, policy::LayerGroup scores,
                                      Group group) {
  const DecisionInput::Layer& layer = input.layers[group.begin];
  if (!layer.over) return std::nullopt;
  absl::Span<policy::KeptScores> kept;
  if (!input.kept.empty()) {
    const uint32_t first = input.shared ? input.judges.begin : group.begin;
    kept = absl::MakeSpan(input.kept).subspan(first, scores.size());
    for (size_t i = 0; i < kept.size(); ++i) {
      if (i + 1 < kept.size()) kept[i + 1].Prefetch();
      kept[i].Update(*input.policy, scores[i]);
    }
  }
  const BlockIndex block = input.policy->SelectDecode(scores, layer.limits, kept);
  const uint32_t first_token = block.value() * input.page_tokens;
  FOLIO_CHECK(first_token >= layer.limits.sink.value());
  FOLIO_CHECK(first_token + input.page_tokens + layer.limits.recent.value() <=
              layer.tokens.value());
  FOLIO_CHECK(!layer.limits.held.contains(block.value()));
  return block;
}

// Layers [begin, end) of a decision, which one thread makes.
struct Part {
  uint32_t input;
  uint32_t begin;
  uint32_t end;
  absl::Duration took;
};

// Work is counted in layers of a decision that chooses a block by page scores, some 0.2 us each. A
// block of KVCrush costs so many of them, and a layer of a prompt more.
constexpr uint32_t kCrushedBlock = 8;
constexpr uint32_t kPrompt = 256;
// Less than this is done before another thread has woken up.
constexpr uint64_t kWorthSharing = 256;

// Divides a decision into parts, and returns its work.
uint64_t AddParts(const DecisionInput& input, uint32_t index, std::vector<Part>& parts) {
  const auto layers = static_cast<uint32_t>(input.layers.size());
  const uint32_t block = input.policy->traits().sorts_heads ? kCrushedBlock : 1;
  const uint32_t per_layer = input.compact ? kPrompt : block;
  const uint32_t step =
      input.shared ? layers : std::max<uint64_t>(kWorthSharing / 4 / per_layer, uint64_t{1});
  for (uint32_t begin = 0; begin < layers; begin += step) {
    parts.push_back({index, begin, std::min(begin + step, layers), {}});
  }
  return uint64_t{per_layer} * (input.shared ? input.judges.size() : layers);
}

Action EmptyAction(const DecisionInput& input) {
  const size_t layers = input.layers.size();
  if (!input.compact) return DropAction{std::vector<std::optional<BlockIndex>>(layers)};
  CompactAction compact;
  compact.keep.resize(layers);
  for (const DecisionInput::Layer& layer : input.layers) compact.spare.push_back(layer.spare);
  return compact;
}

void DecideGroup(DecisionInput& input, policy::LayerGroup scores, Group group, Action& action) {
  for (uint32_t layer = group.begin + 1; layer < group.end; ++layer) {
    FOLIO_CHECK(input.layers[layer].tokens == input.layers[group.begin].tokens);
    FOLIO_CHECK(input.layers[layer].over == input.layers[group.begin].over);
  }
  if (auto* compact = std::get_if<CompactAction>(&action)) {
    compact->keep[group.begin] = SelectSurvivors(input, scores, input.layers[group.begin]);
    for (uint32_t layer = group.begin + 1; layer < group.end; ++layer) {
      compact->keep[layer] = compact->keep[group.begin];
    }
  } else {
    auto& blocks = std::get<DropAction>(action).block;
    const std::optional<BlockIndex> block = SelectBlock(input, scores, group);
    std::fill(blocks.begin() + group.begin, blocks.begin() + group.end, block);
  }
}

void DecidePart(DecisionInput& input, const Part& part, Action& action) {
  if (input.shared) {
    DecideGroup(input, input.JudgesScores(), {part.begin, part.end}, action);
    return;
  }
  for (uint32_t layer = part.begin; layer < part.end; ++layer) {
    if (layer + 1 < input.kept.size()) input.kept[layer + 1].Prefetch();
    const policy::LayerScores scores = input.Scores(layer);
    DecideGroup(input, {&scores, 1}, {layer, layer + 1}, action);
  }
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
          .stretch_ends = layers[layer].stretch_ends,
          .logical_length = logical_length};
}

std::vector<policy::LayerScores> DecisionInput::JudgesScores() const {
  std::vector<policy::LayerScores> scores;
  scores.reserve(judges.size());
  for (size_t layer = judges.begin; layer < judges.end; ++layer) scores.push_back(Scores(layer));
  return scores;
}

std::vector<Decision> Decide(absl::Span<DecisionInput> inputs, DecisionThreads& threads) {
  std::vector<Decision> decisions(inputs.size());
  std::vector<Part> parts;
  uint64_t work = 0;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    decisions[i].action = EmptyAction(inputs[i]);
    work += AddParts(inputs[i], i, parts);
  }
  const auto run = [&](uint32_t index) {
    Part& part = parts[index];
    const SteadyTime start = SteadyNow();
    DecidePart(inputs[part.input], part, decisions[part.input].action);
    part.took = SteadyNow() - start;
  };
  const auto count = static_cast<uint32_t>(parts.size());
  if (work < kWorthSharing) {
    for (uint32_t index = 0; index < count; ++index) run(index);
  } else {
    threads.Run(count, run);
  }
  for (const Part& part : parts) decisions[part.input].took += part.took;
  return decisions;
}

}  // namespace folio::cache
