// PagedEviction (arXiv 2509.04377): a token's importance is ||V|| / ||K||, which the worker has
// written to the score board; a page's importance is the mean over its tokens. Prefill drops single
// tokens before they are paged, decode drops one whole page each time the newest page fills.
#ifndef FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_
#define FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_

#include "services/policy/policy.h"

namespace folio::policy {

class PagedEviction final : public Policy {
 public:
  absl::string_view name() const override { return "paged_eviction"; }
  bool evicts() const override { return true; }
  bool needs_scores() const override { return true; }
  std::vector<SlotIndex> SelectPrefill(const LayerScores& scores,
                                       const Limits& limits) const override;
  BlockIndex SelectDecode(const LayerScores& scores, const Limits& limits) const override;
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_
