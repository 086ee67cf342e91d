// Uniform choice: the control that every claim about another policy is compared with. Its numbers
// are drawn from the seed and from where and when they are needed, so a run repeats.
//
// Prefill: every token of a layer draws once. Decode: every candidate block draws anew at each
// decision, so that no block is favoured for having survived. Cost: nothing from the worker.
#ifndef FOLIO_SERVICES_POLICY_RANDOM_H_
#define FOLIO_SERVICES_POLICY_RANDOM_H_

#include "services/policy/ranking_policy.h"

namespace folio::policy {

class Random final : public RankingPolicy {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  absl::string_view name() const override { return "random"; }
  // In [0, 1).
  std::vector<float> TokenScores(const LayerScores& scores) const override;
  std::vector<float> BlockScores(const LayerScores& scores) const override;

 private:
  const uint64_t seed_;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_RANDOM_H_
