#include "services/cache/decision_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/budgets.h"
#include "services/cache/page_needs.h"

namespace folio::cache {
namespace {

bool HoldTheSameTokens(const std::vector<BlockTable>& layers) {
  const std::vector<PositionRange> first = layers[0].positions();
  return std::all_of(layers.begin() + 1, layers.end(),
                     [&](const BlockTable& layer) { return layer.positions() == first; });
}

}  // namespace

TokenCount DecisionView::PromptTokens(const BlockTable& table) const {
  return table.CountBefore(Position(record_.prompt_tokens));
}

TokenCount DecisionView::ScoredTokens(const BlockTable& table, TokenCount tokens,
                                      ScoreTime time) const {
  if (time == ScoreTime::kAppend) return tokens;
  const bool at_prompt_end = time == ScoreTime::kPromptEnd;
  const TokenCount full = tokens - TokenCount(tokens.value() % record_.geometry.page_tokens);
  if (!at_prompt_end && full == tokens) return tokens;
  const TokenCount prompt = std::min(PromptTokens(table), tokens);
  return at_prompt_end ? prompt : std::max(full, prompt);
}

bool DecisionView::due() const {
  if (!record_.policy().evicts || record_.plan_in_flight()) return false;
  if (record_.in_prompt()) return record_.AtCompaction();
  if (!record_.shrinking.waits()) return Budgets(record_).over();
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    if (record_.FullTokens(layer) > Budgets(record_).Allowance(layer)) return true;
  }
  return false;
}

PageCount DecisionView::ScoredPages(size_t layer) const {
  const policy::PolicyTraits& policy = record_.policy();
  const bool judges = record_.cache.judges(record_.geometry.num_layers).contains(layer);
  const bool early = policy.scores.time == ScoreTime::kPromptEnd && record_.in_prompt();
  if (!policy.needs_scores() || !judges || early || IsWindowed(record_, layer)) return PageCount(0);
  const BlockTable& table = record_.layers[layer];
  const TokenCount scored = ScoredTokens(table, table.resident(), policy.scores.time);
  return PageCount(scored.value() / record_.geometry.page_tokens);
}

DecisionInput DecisionView::EmptyInput(const policy::CacheConfig& cache) const {
  DecisionInput input;
  input.sequence = record_.id;
  input.policy = cache.policy.shared();
  input.page_tokens = record_.geometry.page_tokens;
  input.kv_heads = record_.geometry.num_kv_heads;
  input.logical_length = TokenCount(record_.logical_length);
  input.shared = cache.layers == policy::Layers::kShared;
  input.judges = cache.judges(record_.geometry.num_layers);
  return input;
}

void DecisionView::AddShares(const policy::CacheConfig& cache, DecisionInput& input) const {
  if (cache.shares == policy::Shares{}) return;
  for (size_t index = 0; index < input.layers.size(); ++index) {
    DecisionInput::Layer& layer = input.layers[index];
    if (layer.windowed) continue;
    if (input.shared && index > 0) {
      layer.limits = input.layers[0].limits;
      layer.stretch_ends = input.layers[0].stretch_ends;
    } else {
      AddShares(cache.shares, record_.layers[index], layer);
    }
  }
}

void DecisionView::AddShares(const policy::Shares& shares, const BlockTable& table,
                             DecisionInput::Layer& layer) const {
  const uint32_t page_tokens = record_.geometry.page_tokens;
  layer.limits = layer.compacts
                     ? policy::CompactionLimits(layer.limits, shares, page_tokens)
                     : policy::DecodeLimits(layer.limits, shares, PromptTokens(table), page_tokens);
  if (shares.segments == 1) return;
  const uint64_t length = uint64_t{record_.logical_length};
  layer.stretch_ends.reserve(shares.segments);
  for (uint64_t i = 1; i <= shares.segments; ++i) {
    const Position end(static_cast<uint32_t>(length * i / shares.segments));
    layer.stretch_ends.emplace_back(table.CountBefore(end).value());
  }
}

DecisionInput::Layer DecisionView::MakeLayer(const policy::CacheConfig& cache, size_t layer,
                                             TokenCount tokens, bool compacts,
                                             uint32_t kept_blocks) const {
  const policy::PolicyTraits& policy = cache.policy->traits();
  const BlockTable& table = record_.layers[layer];
  DecisionInput::Layer view;
  view.tokens = tokens;
  view.windowed = IsWindowed(record_, layer);
  view.compacts = compacts && !view.windowed;
  view.limits = cache.limits(layer);
  if (view.windowed) return view;
  if (!policy.needs_scores() || !cache.judges(record_.geometry.num_layers).contains(layer)) {
    return view;
  }
  view.scored = ScoredTokens(table, tokens, policy.scores.time);
  const uint32_t pages = record_.geometry.pages_for(tokens.value());
  view.kept_blocks = kept_blocks;
  view.pages =
      board_.Rows(absl::MakeConstSpan(table.pages()).subspan(kept_blocks, pages - kept_blocks), 0);
  return view;
}

void DecisionView::AddCompaction(size_t index, DecisionInput::Layer& layer) const {
  const BlockTable& table = record_.layers[index];
  const uint64_t budget =
      layer.windowed ? layer.tokens.value() : record_.cache_of_prompt.layer_budget(index).value();
  const auto kept = static_cast<uint32_t>(std::min<uint64_t>(layer.tokens.value(), budget));
  const bool ends = record_.logical_length == record_.prompt_tokens;
  const uint64_t pages = record_.geometry.pages_for(kept);
  const uint64_t wanted =
      ends ? record_.footprint.layer(index).TargetPages(kept, record_.remaining())
           : PageNeeds(record_).Wanted(index, kept);
  const uint64_t stay = std::min<uint64_t>(wanted, table.pages().size());
  layer.over = layer.tokens.value() > budget;
  layer.spare = PageCount(static_cast<uint32_t>(stay - pages));
  // The second channel is written at the prompt's end.
  if (!ends || record_.policy().prompt_scores.kind == ScoreKind::kNone) return;
  layer.prompt_pages = board_.Rows(absl::MakeConstSpan(table.pages()).first(layer.pages.size()), 1);
}

DecisionInput DecisionView::Snapshot(std::vector<policy::KeptScores> kept) const {
  const bool compact = record_.compaction_due();
  const policy::CacheConfig& cache = compact ? record_.cache_of_prompt : record_.cache;
  DecisionInput input = EmptyInput(cache);
  input.compact = compact;
  if (!input.compact && record_.policy().needs_scores()) {
    input.kept = std::move(kept);
    input.kept.resize(record_.layers.size());
  }
  input.layers.reserve(record_.layers.size());
  for (size_t index = 0; index < record_.layers.size(); ++index) {
    const TokenCount tokens =
        input.compact ? record_.layers[index].resident() : TokenCount(record_.FullTokens(index));
    const uint32_t known = input.kept.empty() ? 0 : input.kept[index].blocks(*input.policy);
    DecisionInput::Layer& layer =
        input.layers.emplace_back(MakeLayer(cache, index, tokens, input.compact, known));
    if (input.compact) {
      AddCompaction(index, layer);
    } else {
      layer.over = record_.OverBudget(index);
    }
  }
  AddShares(cache, input);
  return input;
}

absl::StatusOr<DecisionInput> DecisionView::DryRun(
    const std::optional<policy::CacheConfig>& other) const {
  const policy::CacheConfig& cache = other.has_value() ? *other : record_.cache;
  const policy::PolicyTraits& asked = cache.policy->traits();
  const policy::PolicyTraits& own = record_.policy();
  if (record_.in_prompt()) {
    return Refuse(record_, "its prompt is still in prefill; ask again when it decodes");
  }
  if (record_.parked) return Refuse(record_, "it is parked; ask again when it decodes");
  if (asked.needs_scores() && asked.scores != own.scores) {
    return Refuse(
        record_,
        absl::StrCat("its worker writes the scores of policy ", own.name, ", which policy ",
                     asked.name, asked.name == own.name ? " with another window or pool" : "",
                     " does not read"));
  }
  const LayerRange written = record_.cache.judges(record_.geometry.num_layers);
  if (asked.needs_scores() && !written.contains(cache.judges(record_.geometry.num_layers))) {
    return Refuse(record_, absl::StrCat("its worker writes scores in layers ", written.begin,
                                        " to ", written.end - 1,
                                        " alone, which judge for the others; ask with layers "
                                        "shared and the same judges"));
  }
  if (cache.layers == policy::Layers::kShared && !HoldTheSameTokens(record_.layers)) {
    return Refuse(record_,
                  "its layers hold different tokens, so they cannot decide together; leave layers "
                  "shared out");
  }
  DecisionInput input = EmptyInput(cache);
  for (size_t layer = 0; layer < record_.layers.size(); ++layer) {
    const TokenCount resident = record_.layers[layer].resident();
    // Its own policy takes one block at a time, so more than that is a compaction by another.
    const uint32_t page_tokens = record_.geometry.page_tokens;
    const uint32_t full = resident.value() / page_tokens * page_tokens;
    const bool compacts =
        other.has_value() && full > uint64_t{cache.layer_budget(layer).value()} + page_tokens;
    input.layers.push_back(MakeLayer(cache, layer, resident, compacts));
  }
  AddShares(cache, input);
  return input;
}

}  // namespace folio::cache
