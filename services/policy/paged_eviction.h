// PagedEviction is the policy of arXiv 2509.04377: a token's importance is ||V|| / ||K||, and a
// page's importance is the mean over its tokens. Prefill drops single tokens before they are paged,
// and decode drops one whole page each time the newest page fills.
//
// Cost: the worker writes one float per token and KV head as it appends them. A decision reads all
// of them after prefill, and only those of the page that filled in decode.
#ifndef FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_
#define FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_

#include <memory>

#include "absl/status/status.h"
#include "services/policy/ranking_policy.h"

namespace folio::policy {

class PagedEviction final : public RankingPolicy {
 public:
  PagedEviction()
      : RankingPolicy({.name = "paged_eviction", .scores = Need(ScoreKind::kNormRatio)}) {}
};

struct PagedEvictionSpec {
  absl::Status Check() const { return absl::OkStatus(); }
  std::shared_ptr<const RankingPolicy> Make() const {
    return std::make_shared<const PagedEviction>();
  }
};

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_PAGED_EVICTION_H_
