#include "services/policy/kept_scores.h"

#include <algorithm>

#include "services/base/check.h"

namespace folio::policy {

void KeptScores::Update(const Policy& policy, const LayerScores& scores) {
  if (!WrittenOnce(policy.traits().scores.time)) Clear();
  page_tokens_ = scores.page_tokens;
  ApplyDrop();
  const size_t held = block_scores_.size();
  const size_t full = scores.tokens.value() / page_tokens_;
  FOLIO_CHECK(held <= full);
  if (held == full) return;
  LayerScores newer = scores;
  const auto older = static_cast<uint32_t>(held * page_tokens_);
  newer.pages.remove_prefix(held);
  newer.tokens = TokenCount(static_cast<uint32_t>(full * page_tokens_) - older);
  newer.scored = std::min(TokenCount(std::max(scores.scored.value(), older) - older), newer.tokens);
  const std::vector<float> blocks = policy.BlockScores(newer);
  FOLIO_CHECK(blocks.size() == full - held);
  block_scores_.insert(block_scores_.end(), blocks.begin(), blocks.end());
  if (policy.traits().sorts_heads) head_order_.Append(newer, 0, newer.tokens.value());
}

void KeptScores::Drop(BlockIndex block) {
  ApplyDrop();
  FOLIO_CHECK(block.value() < block_scores_.size());
  dropped_ = block;
}

void KeptScores::ApplyDrop() {
  if (!dropped_.has_value()) return;
  const uint32_t block = dropped_->value();
  dropped_.reset();
  block_scores_.erase(block_scores_.begin() + block);
  if (head_order_.heads() > 0) head_order_.Erase(block * page_tokens_, (block + 1) * page_tokens_);
}

void KeptScores::Clear() {
  dropped_.reset();
  block_scores_.clear();
  head_order_.Clear();
}

}  // namespace folio::policy
