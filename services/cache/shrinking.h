// Shrinking is how a sequence in decode comes down to budgets that an operator has lowered
// (steering.h), or down to them again after its prompt was computed again with the old ones.
//
// Its decisions begin when a page fills, because only then its worker has written the scores that a
// policy may ask for. From there on each acknowledged plan makes the next one due. A plan drops a
// page of each layer that is over its budget. Meanwhile a layer may hold what it held at the start,
// and half a page less with each plan. The other half is for tokens that are decoded between two
// plans, so the sequence neither stands still nor stays large.
//
// Plain data, guarded by the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_SHRINKING_H_
#define FOLIO_SERVICES_CACHE_SHRINKING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace folio::cache {

class Shrinking {
 public:
  Shrinking() = default;
  // `held` is the tokens of full pages that each layer may have at the start. `begun`: a plan is in
  // flight. `plans` were acknowledged since.
  Shrinking(std::vector<uint64_t> held, bool begun, uint64_t plans = 0)
      : held_(std::move(held)), begun_(begun), plans_(plans) {}

  // Some layer is over its budget.
  bool active() const { return !held_.empty(); }
  // No page has to go before a page of some layer fills.
  bool waits() const { return active() && !begun_; }

  const std::vector<uint64_t>& held() const { return held_; }
  bool begun() const { return begun_; }
  uint64_t plans() const { return plans_; }

  void OnDecision() { begun_ = true; }
  void OnPlan() { ++plans_; }

  // Tokens of full pages that a layer may have now.
  uint64_t Allowance(size_t layer, uint64_t budget, uint32_t page_tokens) const {
    if (!active()) return budget;
    const uint64_t gone = std::min(held_[layer], plans_ / 2 * page_tokens);
    return std::max(budget, held_[layer] - gone);
  }

 private:
  std::vector<uint64_t> held_;  // [layer], or empty
  bool begun_ = false;          // a decision has been made since
  uint64_t plans_ = 0;          // acknowledged since
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SHRINKING_H_
