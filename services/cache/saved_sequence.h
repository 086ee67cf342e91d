// SavedSequence is the part of a sequence's record that outlives its manager, and SavedChange is
// the part of one transition. The rest of a record is for operators alone, or follows from them.
//
// Plain data.
#ifndef FOLIO_SERVICES_CACHE_SAVED_SEQUENCE_H_
#define FOLIO_SERVICES_CACHE_SAVED_SEQUENCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/base/layer_windows.h"
#include "services/base/sequence_types.h"
#include "services/base/steady_time.h"
#include "services/cache/block_table.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/sequence_record.h"
#include "services/cache/swap_space.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

// The parts are carried out in this order.
struct SavedChange {
  SequenceId sequence = {};
  bool drop_done = false;       // its worker has carried out the drop that waited
  LayerPageLists granted = {};  // empty, or one list per layer to append
  // Afterwards. The tokens that are new in the cache follow those before them.
  TokenCount logical_length = {};
  std::vector<TokenId> sampled = {};       // new in the record
  std::optional<Plan> plan = {};           // a drop that waits from now on
  std::optional<PlanEpoch> compacts = {};  // a compaction of this epoch waits from now on
};

struct SavedSequence {
  SequenceId id;
  // As it was opened, with the worker, its abilities and the whole prompt. `prefill_ahead` is the
  // longest of all its workers.
  OpenRequest request;
  Admission admission = Admission::kReserve;
  SteadyTime opened;
  LeaseEpoch lease_epoch{1};
  uint32_t fruitless_claims = 0;
  Progress furthest;
  policy::CacheConfig cache;  // as that of the request, or with lower budgets
  Shrinking shrinking;
  bool pinned = false;
  bool closing = false;  // an operator has ended it, and its worker is to close it

  std::vector<TokenId> sampled;
  TokenCount logical_length;
  uint32_t plans_here = 0;
  std::vector<BlockTable> layers;  // without pages if it was swapped out
  bool compacted = false;
  bool compacted_before = false;
  uint64_t evicted_pages = 0;
  bool parked = false;
  SwapUse swap = SwapUse::kNone;
  std::vector<SwapSlot> slots;
  PlanEpoch last_plan;
  std::optional<Plan> plan = {};  // always a drop
  bool may_have_moved = false;    // its worker may have carried out a compaction, or a part of it
  LayerWindows windows = {};      // of its model

  // It is to be computed again.
  void LoseContents();
  // INTERNAL if the change does not fit. The sequence is then unusable.
  absl::Status Apply(const SavedChange& change);

 private:
  absl::Status ApplyDrop();
  absl::Status MoveWindows();
  bool over() const;  // some layer has more tokens in full pages than its budget
};

SavedSequence Save(const SequenceRecord& record);

// A block table with these pages and positions. One `without_pages` is of a sequence that was
// swapped out. INTERNAL if they do not fit together.
absl::StatusOr<BlockTable> MakeTable(uint32_t page_tokens, const PageList& pages,
                                     const std::vector<PositionRange>& positions,
                                     bool without_pages);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SAVED_SEQUENCE_H_
