// ValueNorm is the policy that keeps the tokens with the largest ||V||. It is one of the two
// factors of PagedEviction's score, and InverseKeyNorm is the other: beside them it shows which
// factor a result is owed to. A page's importance is the mean over its tokens.
//
// Cost: the same as PagedEviction.
#ifndef FOLIO_SERVICES_POLICY_VALUE_NORM_H_
#define FOLIO_SERVICES_POLICY_VALUE_NORM_H_

#include <memory>

#include "absl/status/status.h"
#include "services/policy/ranking_policy.h"

namespace folio::policy {

class ValueNorm final : public RankingPolicy {
 public:
  ValueNorm() : RankingPolicy({.name = "value_norm", .scores = Need(ScoreKind::kValueNorm)}) {}
};

struct ValueNormSpec {
  absl::Status Check() const { return absl::OkStatus(); }
  std::shared_ptr<const RankingPolicy> Make() const { return std::make_shared<const ValueNorm>(); }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_VALUE_NORM_H_
