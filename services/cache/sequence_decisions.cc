// What a policy is told of a sequence, and when.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/sequence.h"
#include "services/policy/registry.h"

namespace folio::cache {

TokenCount Sequence::PromptTokens(const BlockTable& table) const {
  const Position end(prompt_tokens_);
  uint32_t count = 0;
  for (const PositionRange& run : table.positions()) {
    if (run.begin >= end) break;
    count += (std::min(run.end, end) - run.begin).value();
  }
  return TokenCount(count);
}

TokenCount Sequence::ScoredTokens(const BlockTable& table, TokenCount tokens,
                                  policy::ScoreTime time) const {
  if (time == policy::ScoreTime::kAppend) return tokens;
  const bool at_prompt_end = time == policy::ScoreTime::kPromptEnd;
  const TokenCount full = tokens - TokenCount(tokens.value() % geometry_.page_tokens);
  if (!at_prompt_end && full == tokens) return tokens;
  const TokenCount prompt = std::min(PromptTokens(table), tokens);
  return at_prompt_end ? prompt : std::max(full, prompt);
}

bool Sequence::OverBudget(size_t layer) const {
  return FullTokens(layers_[layer]) > cache_.layer_budget(layer).value();
}

DecisionInput::Layer Sequence::SnapshotLayer(size_t at, TokenCount tokens,
                                             const policy::Policy& policy,
                                             const policy::CacheConfig& cache,
                                             const ScoreBoard& board) const {
  const BlockTable& table = layers_[at];
  DecisionInput::Layer layer;
  layer.tokens = tokens;
  layer.limits = cache.limits(at);
  if (!policy.needs_scores()) return layer;
  layer.scored = ScoredTokens(table, tokens, policy.score_need().time);
  const uint32_t pages = geometry_.pages_for(tokens.value());
  layer.pages = board.Rows(absl::MakeConstSpan(table.pages()).first(pages), 0);
  return layer;
}

DecisionInput Sequence::EmptyInput(std::shared_ptr<const policy::Policy> policy) const {
  DecisionInput input;
  input.sequence = id_;
  input.policy = std::move(policy);
  input.page_tokens = geometry_.page_tokens;
  input.kv_heads = geometry_.num_kv_heads;
  input.logical_length = TokenCount(logical_length_);
  return input;
}

DecisionInput Sequence::Snapshot(const ScoreBoard& board) const {
  DecisionInput input = EmptyInput(policy_);
  input.compact = must_compact_ && !compacted_;
  for (size_t at = 0; at < layers_.size(); ++at) {
    const BlockTable& table = layers_[at];
    const uint64_t budget = cache_.layer_budget(at).value();
    const TokenCount tokens = input.compact ? table.resident() : TokenCount(FullTokens(table));
    DecisionInput::Layer layer = SnapshotLayer(at, tokens, *policy_, cache_, board);
    layer.over = input.compact ? tokens.value() > budget : OverBudget(at);
    if (input.compact) {
      const uint64_t kept = std::min<uint64_t>(tokens.value(), budget);
      const uint64_t pages = geometry_.pages_for(static_cast<uint32_t>(kept));
      const uint64_t wanted = footprints_[at].Now(kept, remaining());
      const uint64_t stay = std::min<uint64_t>(wanted, table.pages().size());
      layer.spare = PageCount(static_cast<uint32_t>(stay - pages));
      if (policy_->prompt_score_need().kind != policy::ScoreKind::kNone) {
        layer.prompt_pages =
            board.Rows(absl::MakeConstSpan(table.pages()).first(layer.pages.size()), 1);
      }
    }
    input.layers.push_back(std::move(layer));
  }
  return input;
}

absl::StatusOr<DecisionInput> Sequence::Imagine(const policy::CacheConfig& cache,
                                                const ScoreBoard& board) const {
  DecisionInput input = EmptyInput(policy::MakePolicy(cache.policy));
  const policy::ScoreNeed need = input.policy->score_need();
  if (in_prompt()) return Refuse("its prompt is still in prefill; ask again when it decodes");
  if (need.kind != policy::ScoreKind::kNone && need != policy_->score_need()) {
    const bool other = input.policy->name() != policy_->name();
    return Refuse(absl::StrCat("its worker writes the scores of policy ", policy_->name(),
                               ", which policy ", input.policy->name(),
                               other ? "" : " with another window or pool", " does not read"));
  }
  for (size_t at = 0; at < layers_.size(); ++at) {
    input.layers.push_back(SnapshotLayer(at, layers_[at].resident(), *input.policy, cache, board));
  }
  return input;
}

std::optional<DecisionInput> Sequence::BeginDecision(const ScoreBoard& board) {
  if (!policy_->evicts() || plan_in_flight() || logical_length_ < prompt_tokens_) {
    return std::nullopt;
  }
  bool due = must_compact_ && !compacted_;
  for (size_t layer = 0; layer < layers_.size(); ++layer) due = due || OverBudget(layer);
  if (!due) return std::nullopt;
  deciding_ = true;
  DecisionInput input = Snapshot(board);
  if (!input.compact && policy_->needs_scores()) {
    input.kept = std::exchange(kept_, {});
    input.kept.resize(layers_.size());
  }
  return input;
}

}  // namespace folio::cache
