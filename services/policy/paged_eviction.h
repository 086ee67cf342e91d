// PagedEviction (arXiv 2509.04377): a token's importance is ||V|| / ||K||, a page's importance is
// the mean over its tokens. Prefill drops single tokens before they are paged, decode drops one
// whole page each time the newest page fills.
//
// Cost: the worker writes one float per token and KV head as it appends them; a decision reads them
// after prefill, and in decode those of the page that filled.
#ifndef FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_
#define FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_

#include "services/policy/ranking_policy.h"

namespace folio::policy {

class PagedEviction final : public RankingPolicy {
 public:
  absl::string_view name() const override { return "paged_eviction"; }
  ScoreNeed score_need() const override { return {ScoreKind::kNormRatio, ScoreTime::kAppend}; }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_
