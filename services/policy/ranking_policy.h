// A policy that gives each token and each block a number and keeps the highest: all but `full` and
// `streaming_llm`. What derives from it says where the numbers come from.
#ifndef FOLIO_SERVICES_POLICY_RANKING_POLICY_H_
#define FOLIO_SERVICES_POLICY_RANKING_POLICY_H_

#include <vector>

#include "services/policy/policy.h"

namespace folio::policy {

class RankingPolicy : public Policy {
 public:
  bool evicts() const final { return true; }

  // The highest TokenScores between what is protected.
  std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                       const Limits& limits) const override;
  // The candidate of the lowest BlockScores.
  BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const override;

  // Float32 means of the board's rows over the KV heads; +inf for tokens without one.
  std::vector<float> TokenScores(const LayerScores& scores) const override;
  // Means of the rows' means over each full block.
  std::vector<float> BlockScores(const LayerScores& scores) const override;

  // `limits` with own_recent() taken in: what it protects in prefill. In decode the block that a
  // protected token of the prompt lies in has had its time, and `limits` itself holds.
  Limits PrefillLimits(const Limits& limits) const;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_RANKING_POLICY_H_
