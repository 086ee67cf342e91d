// KeyDiff (arXiv 2504.15364): keys that are unlike the others carry what the others do not, so a
// token's importance is -cos(k, m), with m the mean of the normalised keys of the resident tokens
// of the same layer and KV head. A page's importance is the mean over its tokens.
//
// Cost: the mean moves as tokens come and go, so the worker scores every resident token again
// before each decision: two passes over the layer's keys at the prompt's end and once per filled
// page.
#ifndef FOLIO_SERVICES_POLICY_KEY_DIFF_H_
#define FOLIO_SERVICES_POLICY_KEY_DIFF_H_

#include "services/policy/ranking_policy.h"

namespace folio::policy {

class KeyDiff final : public RankingPolicy {
 public:
  absl::string_view name() const override { return "key_diff"; }
  ScoreNeed score_need() const override {
    return {ScoreKind::kKeyDifference, ScoreTime::kDecision};
  }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_KEY_DIFF_H_
