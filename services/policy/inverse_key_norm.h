// InverseKeyNorm is the policy of arXiv 2406.11430: keys of small norm are attended to more, so a
// token's importance is 1 / ||K||. A page's importance is the mean over its tokens.
//
// Cost: the same as PagedEviction.
#ifndef FOLIO_SERVICES_POLICY_INVERSE_KEY_NORM_H_
#define FOLIO_SERVICES_POLICY_INVERSE_KEY_NORM_H_

#include <memory>

#include "absl/status/status.h"
#include "services/policy/ranking_policy.h"

namespace folio::policy {

class InverseKeyNorm final : public RankingPolicy {
 public:
  InverseKeyNorm()
      : RankingPolicy({.name = "inverse_key_norm", .scores = Need(ScoreKind::kInverseKeyNorm)}) {}
};

struct InverseKeyNormSpec {
  absl::Status Check() const { return absl::OkStatus(); }
  std::shared_ptr<const RankingPolicy> Make() const {
    return std::make_shared<const InverseKeyNorm>();
  }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_INVERSE_KEY_NORM_H_
