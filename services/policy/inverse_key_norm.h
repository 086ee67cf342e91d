// Inverse key norm (arXiv 2406.11430): keys of small norm are attended to more, so a token's
// importance is 1 / ||K||. A page's importance is the mean over its tokens.
//
// Cost: as PagedEviction.
#ifndef FOLIO_SERVICES_POLICY_INVERSE_KEY_NORM_H_
#define FOLIO_SERVICES_POLICY_INVERSE_KEY_NORM_H_

#include "services/policy/ranking_policy.h"

namespace folio::policy {

class InverseKeyNorm final : public RankingPolicy {
 public:
  absl::string_view name() const override { return "inverse_key_norm"; }
  ScoreNeed score_need() const override { return {ScoreKind::kInverseKeyNorm, ScoreTime::kAppend}; }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_INVERSE_KEY_NORM_H_
