// Keeps every token: the cache without eviction, and the reference the others are measured against.
#ifndef FOLIO_SERVICES_POLICY_FULL_H_
#define FOLIO_SERVICES_POLICY_FULL_H_

#include "services/policy/policy.h"

namespace folio::policy {

class Full final : public Policy {
 public:
  absl::string_view name() const override { return "full"; }
  bool evicts() const override { return false; }
  // Every slot.
  std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                       const Limits& limits) const override;
  // Must not be called: there is no block to give.
  BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const override;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_FULL_H_
