// SequenceRecord is one sequence as the manager knows it: its settings, its worker, its tokens, its
// block tables and the plan that waits for it. cache::Sequence is the only writer. Checks,
// decisions and reports read it.
//
// Plain data with numbers derived from it. The coordinator's lock guards it.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_RECORD_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_RECORD_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/cache/block_table.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/orders.h"
#include "services/cache/plan_history.h"
#include "services/cache/sequence_footprint.h"
#include "services/cache/shrinking.h"
#include "services/cache/swap_space.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

// Progress is how far a sequence has come. A longer sequence is further, and of two equally long
// ones the one that has carried out more plans since it became so long. Both numbers are bounded,
// so a sequence that gets further again and again comes to its end.
struct Progress {
  uint32_t length = 0;
  uint32_t plans = 0;  // acknowledged at this length
  friend auto operator<=>(const Progress&, const Progress&) = default;
};

struct SequenceRecord {
  // Precondition: the request's settings are valid.
  SequenceRecord(SequenceId id, const OpenRequest& request, const CacheGeometry& geometry,
                 Admission admission, SteadyTime opened);

  // Fixed when the sequence is opened.
  const SequenceId id;
  const CacheGeometry geometry;
  const policy::CacheConfig cache_of_prompt;  // also of a prompt that is computed again
  const SequenceMetadata metadata;
  const std::string tenant;
  const int32_t priority;
  const SteadyTime opened;
  const uint32_t prompt_tokens;
  const uint32_t max_new_tokens;
  const Admission admission;
  const SteadyTime arrived;     // the youngest one of the lowest priority is the first to be parked
  const SteadyTime due;         // see urgency.h; the order in which sequences wait for pages
  SequenceFootprint footprint;  // wider once a worker with longer chunks has claimed it

  // The worker that may change the sequence. For an orphan it is the last one.
  WorkerId worker;
  LeaseEpoch lease_epoch{1};
  WorkerAbilities abilities;
  std::optional<SteadyTime> orphaned_at;   // when the worker was lost
  std::optional<SteadyTime> claimable_at;  // of an orphan: when its worker was proven gone
  // Claims since a commit or an acknowledgement last brought the sequence further than it had ever
  // been. Tokens that are computed again do not count.
  uint32_t fruitless_claims = 0;
  Progress furthest;
  // The last commit, acknowledgement, grant or claim. Since then its worker could compute a further
  // token, unless pages or a plan are missing.
  SteadyTime ready_since;

  // The contents of the cache.
  std::vector<TokenId> tokens;  // prompt and sampled
  uint32_t logical_length = 0;
  uint32_t plans_here = 0;  // acknowledged since it has this length
  std::vector<BlockTable> layers;
  bool compacted = false;         // at the prompt's end
  bool compacted_before = false;  // at a stop before its end
  uint64_t evicted_pages = 0;

  // Pages in short supply.
  bool starved = false;     // it should have more pages than the pool could give
  bool asked_back = false;  // its worker is to park it
  bool told = false;        // and has been told so
  // It holds no pages. `tokens` has what was sampled, and its worker computes all of it again,
  // unless `swap` has the contents.
  bool parked = false;
  SequenceSwap swap;
  uint32_t quiet_tokens = 0;  // PageNeeds::QuietTokens, or less
  Orders orders;

  // The next eviction.
  policy::CacheConfig cache;  // as that of the prompt, or with lower budgets
  Shrinking shrinking;
  bool deciding = false;  // a policy reads the sequence's scores, so its pages must stay in place
  std::optional<Plan> plan;
  PlanEpoch last_plan;
  PlanHistory history;

  const policy::PolicyTraits& policy() const { return cache.policy->traits(); }
  // A compaction is still to come.
  bool compaction_due() const { return footprint.compacts() && !compacted; }
  // The prefill stands at a stop, and some layer is over its budget there.
  bool AtCompaction() const;
  bool plan_in_flight() const { return deciding || plan.has_value(); }
  // The prompt is incomplete, or its compaction is not done.
  bool in_prompt() const { return logical_length < prompt_tokens || compaction_due(); }
  bool orphaned() const { return orphaned_at.has_value(); }
  // A sequence can outlive its worker if a client can ask for it again, and no operator ended it.
  bool can_be_orphaned() const {
    return !metadata.resume_token.empty() && !orders.close.has_value();
  }
  // A compaction waits. The worker may have moved some of the tokens, and no record says which. A
  // drop moves no token.
  bool may_have_moved() const { return compaction_due() && plan_in_flight(); }

  // Tokens that may still be appended.
  uint64_t remaining() const { return uint64_t{prompt_tokens} + max_new_tokens - logical_length; }
  // Tokens in full pages.
  uint32_t FullTokens(size_t layer) const;
  bool OverBudget(size_t layer) const;
  uint64_t held_pages() const;
};

// The sequence has a worker that computes it.
inline bool Runs(const SequenceRecord& record) { return !record.orphaned() && !record.parked; }

// The layer attends to a window, so budgets are not for it.
inline bool IsWindowed(const SequenceRecord& record, size_t layer) {
  return record.geometry.windows.contains(layer);
}
// Tokens at the sequence's front that the layer lacks, because its window has passed them.
inline uint32_t TokensBehind(const SequenceRecord& record, size_t layer) {
  const CacheGeometry& geometry = record.geometry;
  return geometry.windows.TokensBehind(layer, record.logical_length, geometry.page_tokens);
}
// Pages that windows have passed, over all layers.
uint64_t PagesBehind(const SequenceRecord& record);

// The page as errors name it, and FAILED_PRECONDITION that names the sequence.
std::string PageText(PageRef page);
absl::Status Refuse(const SequenceRecord& record, absl::string_view why);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_RECORD_H_
