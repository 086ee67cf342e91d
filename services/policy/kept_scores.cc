#include "services/policy/kept_scores.h"

#include <algorithm>

#include "services/common/check.h"

namespace folio::policy {

void KeptScores::Follow(const Policy& policy, const LayerScores& scores) {
  if (!WrittenOnce(policy.score_need().time)) Clear();
  page_tokens_ = scores.page_tokens;
  CarryOutDrop();
  const size_t held = block_scores_.size();
  const size_t full = scores.tokens.value() / page_tokens_;
  FOLIO_CHECK(held <= full);
  if (held == full) return;
  LayerScores newer = scores;
  const auto older = static_cast<uint32_t>(held * page_tokens_);
  newer.pages.remove_prefix(held);
  newer.tokens = TokenCount(static_cast<uint32_t>(full * page_tokens_) - older);
  newer.scored = std::min(TokenCount(std::max(scores.scored.value(), older) - older), newer.tokens);
  newer.kept = nullptr;
  const std::vector<float> blocks = policy.BlockScores(newer);
  FOLIO_CHECK(blocks.size() == full - held);
  block_scores_.insert(block_scores_.end(), blocks.begin(), blocks.end());
  if (policy.ranks_heads()) ranks_.Append(newer, 0, newer.tokens.value());
}

void KeptScores::Drop(BlockIndex block) {
  CarryOutDrop();
  FOLIO_CHECK(block.value() < block_scores_.size());
  dropped_ = block;
}

void KeptScores::CarryOutDrop() {
  if (!dropped_.has_value()) return;
  const uint32_t block = dropped_->value();
  dropped_.reset();
  block_scores_.erase(block_scores_.begin() + block);
  if (ranks_.heads() > 0) ranks_.Erase(block * page_tokens_, (block + 1) * page_tokens_);
}

void KeptScores::Clear() {
  dropped_.reset();
  block_scores_.clear();
  ranks_.Clear();
}

}  // namespace folio::policy
