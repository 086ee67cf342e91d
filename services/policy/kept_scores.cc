#include "services/policy/kept_scores.h"

#include <algorithm>

#include "services/base/check.h"
#include "services/policy/score_rows.h"

namespace folio::policy {

uint32_t KeptScores::blocks(const Policy& policy) const {
  if (!WrittenOnce(policy.traits().scores.time)) return 0;
  return static_cast<uint32_t>(block_scores_.size()) - (dropped_.has_value() ? 1 : 0);
}

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
  FOLIO_CHECK(scores.kept_blocks <= held);
  newer.pages.remove_prefix(held - scores.kept_blocks);
  newer.kept_blocks = 0;
  newer.tokens = TokenCount(static_cast<uint32_t>(full * page_tokens_) - older);
  newer.scored = std::min(TokenCount(std::max(scores.scored.value(), older) - older), newer.tokens);
  const std::vector<float> blocks = policy.BlockScores(newer);
  FOLIO_CHECK(blocks.size() == full - held);
  block_scores_.insert(block_scores_.end(), blocks.begin(), blocks.end());
  if (policy.traits().sorts_heads) halves_.Append(newer);
}

void KeptScores::Prefetch() const {
  policy::Prefetch(block_scores_.data(), block_scores_.size());
  halves_.Prefetch(dropped_);
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
  if (halves_.heads() > 0) halves_.Erase(BlockIndex(block));
}

void KeptScores::Clear() {
  dropped_.reset();
  block_scores_.clear();
  halves_.Clear();
}

}  // namespace folio::policy
