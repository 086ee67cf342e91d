// PlanHistory is the newest plans of one sequence that were carried out: when, and what each layer
// lost. Operators see it, and nothing else reads it.
//
// Plain data, guarded by the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_PLAN_HISTORY_H_
#define FOLIO_SERVICES_CACHE_PLAN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "services/base/ids.h"
#include "services/base/steady_time.h"
#include "services/cache/block_table.h"

namespace folio::cache {

// LayerLoss is what one layer lost. Tokens between `begin` and `end` may have been kept.
struct LayerLoss {
  uint32_t layer = 0;
  TokenCount tokens = {};
  Position begin = {};  // the first position lost
  Position end = {};    // behind the last one
};

struct PastPlan {
  PlanEpoch epoch = {};
  SteadyTime when = {};
  TokenCount logical_length = {};  // then
  bool compaction = false;         // otherwise a drop of blocks
  PageCount freed = {};
  std::vector<LayerLoss> losses = {};  // of the layers that lost something, in order
};

class PlanHistory {
 public:
  static constexpr size_t kMost = 32;

  // Forgets the oldest plan if there are kMost.
  void Add(PastPlan plan) {
    if (plans_.size() == kMost) plans_.pop_front();
    plans_.push_back(std::move(plan));
  }
  // The contents of the cache are computed again from the beginning.
  void Clear() { plans_.clear(); }

  const std::deque<PastPlan>& plans() const { return plans_; }

  // The loss of a layer that keeps the slots `keep` (ascending) of its table. No tokens if it keeps
  // all.
  static LayerLoss LossOf(uint32_t layer, const BlockTable& table,
                          absl::Span<const TokenSlot> keep);
  // The loss with a full block.
  static LayerLoss LossOf(uint32_t layer, const BlockTable& table, BlockIndex block,
                          uint32_t page_tokens);

 private:
  std::deque<PastPlan> plans_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PLAN_HISTORY_H_
