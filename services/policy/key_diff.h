// KeyDiff is the policy of arXiv 2504.15364: a key unlike the others carries information that they
// lack. A token's importance is -cos(k, m), with m the mean of the normalised keys of the resident
// tokens of the same layer and KV head. A page's importance is the mean over its tokens.
//
// Cost: the mean changes as tokens come and go, so the worker scores every resident token again
// before each decision. That is two passes over the layer's keys at the prompt's end and once per
// filled page.
#ifndef FOLIO_SERVICES_POLICY_KEY_DIFF_H_
#define FOLIO_SERVICES_POLICY_KEY_DIFF_H_

#include <memory>

#include "absl/status/status.h"
#include "services/policy/ranking_policy.h"

namespace folio::policy {

class KeyDiff final : public RankingPolicy {
 public:
  KeyDiff() : RankingPolicy({.name = "key_diff", .scores = Need(ScoreKind::kKeyDifference)}) {}
};

struct KeyDiffSpec {
  absl::Status Check() const { return absl::OkStatus(); }
  std::shared_ptr<const RankingPolicy> Make() const { return std::make_shared<const KeyDiff>(); }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_KEY_DIFF_H_
