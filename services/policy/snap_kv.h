// SnapKv is the policy of SnapKV (arXiv 2404.14469): the tokens that the prompt's last queries
// attend to are the ones that the answer will need. A token's importance is the attention mass it
// gets from the last `window` queries of the prompt, as a mean over them and over the query heads
// of a KV head, max-pooled over the `pool` tokens around it. The window's own tokens are kept.
//
// The scores say nothing about tokens that decode appends. A page's importance is the mean over its
// tokens of the prompt. Pages without such a token go last, the oldest first.
//
// Cost: the last `window` queries attend a second time at the prompt's end. Decode costs nothing.
#ifndef FOLIO_SERVICES_POLICY_SNAP_KV_H_
#define FOLIO_SERVICES_POLICY_SNAP_KV_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "services/policy/ranking_policy.h"

namespace folio::policy {

class SnapKv final : public RankingPolicy {
 public:
  // `window` is at least 1, `pool` is odd.
  SnapKv(uint32_t window, uint32_t pool)
      : RankingPolicy({.name = "snap_kv",
                       .scores = Need(ScoreKind::kWindowAttention, window, pool),
                       .own_recent = TokenCount(window)}) {}

  // Blocks that the prompt's queries could not see score +inf.
  std::vector<float> BlockScores(const LayerScores& scores) const override;
};

struct SnapKvSpec {
  uint32_t window = 64;
  uint32_t pool = 7;

  absl::Status Check() const;
  std::shared_ptr<const RankingPolicy> Make() const {
    return std::make_shared<const SnapKv>(window, pool);
  }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_SNAP_KV_H_
