// Random is the policy that evicts uniformly at random: the control that every claim about another
// policy is compared with. Its numbers are drawn from the seed, the layer and the moment of the
// decision, so a run can be repeated.
//
// In prefill every token of a layer draws once, and again at each compaction of a prompt that is
// compacted while it streams in. In decode every candidate block draws again at each decision. So
// nothing is favoured for having survived. Cost: nothing from the worker.
#ifndef FOLIO_SERVICES_POLICY_RANDOM_H_
#define FOLIO_SERVICES_POLICY_RANDOM_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "services/policy/ranking_policy.h"

namespace folio::policy {

class Random final : public RankingPolicy {
 public:
  explicit Random(uint64_t seed) : RankingPolicy({.name = "random"}), seed_(seed) {}

  // Numbers in [0, 1).
  std::vector<float> TokenScores(const LayerScores& scores) const override;
  std::vector<float> BlockScores(const LayerScores& scores) const override;

 private:
  const uint64_t seed_;
};

struct RandomSpec {
  uint64_t seed = 0;

  absl::Status Check() const { return absl::OkStatus(); }
  std::shared_ptr<const Policy> Make() const { return std::make_shared<const Random>(seed); }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_RANDOM_H_
