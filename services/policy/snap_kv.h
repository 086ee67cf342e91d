// SnapKV (arXiv 2404.14469): what the prompt's last queries attend to is what the answer will need.
// A token's importance is the attention mass it gets from the last `window` queries of the prompt,
// mean over them and over the query heads of a KV head, max-pooled over `pool` tokens around it;
// the window's own tokens are kept. It says nothing of tokens that decode appends: a page's
// importance is the mean over its tokens of the prompt, and pages without one go oldest first, once
// no other is left.
//
// Cost: the last `window` queries attend a second time, at the prompt's end; nothing in decode.
#ifndef FOLIO_SERVICES_POLICY_SNAP_KV_H_
#define FOLIO_SERVICES_POLICY_SNAP_KV_H_

#include "services/policy/ranking_policy.h"

namespace folio::policy {

class SnapKv final : public RankingPolicy {
 public:
  // `window` >= 1, `pool` odd.
  SnapKv(uint32_t window, uint32_t pool) : window_(window), pool_(pool) {}

  absl::string_view name() const override { return "snap_kv"; }
  ScoreNeed score_need() const override {
    return {ScoreKind::kWindowAttention, ScoreTime::kPromptEnd, window_, pool_};
  }
  TokenCount own_recent() const override { return TokenCount(window_); }

  // +inf for blocks that the prompt's queries could not see.
  std::vector<float> BlockScores(const LayerScores& scores) const override;

 private:
  const uint32_t window_;
  const uint32_t pool_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_SNAP_KV_H_
