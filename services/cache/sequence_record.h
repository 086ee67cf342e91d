// SequenceRecord is one sequence as the manager knows it: its settings, its worker, its tokens, its
// block tables and the plan that waits for it. cache::Sequence is the only writer. Checks,
// decisions and reports read it.
//
// Plain data with numbers derived from it. The coordinator's lock guards it.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_RECORD_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/base/footprint.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/block_table.h"
#include "services/cache/coordinator_types.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

struct SequenceRecord {
  // Precondition: the request's settings are valid.
  SequenceRecord(SequenceId id, const OpenRequest& request, const CacheGeometry& geometry,
                 absl::Time opened);

  // Fixed when the sequence is opened.
  const SequenceId id;
  const CacheGeometry geometry;
  const policy::CacheConfig cache;
  const SequenceMetadata metadata;
  const absl::Time opened;
  const uint32_t prompt_tokens;
  const uint32_t max_new_tokens;
  const std::vector<Footprint> footprints;  // [layer]
  const bool must_compact;                  // the prompt is longer than some layer's budget

  // The worker that may change the sequence. For an orphan it is the last one.
  WorkerId worker;
  LeaseEpoch lease_epoch{1};
  std::optional<absl::Time> orphaned_at;  // when the worker was lost

  // The contents of the cache.
  std::vector<TokenId> tokens;  // prompt and sampled
  uint32_t logical_length = 0;
  std::vector<BlockTable> layers;
  bool compacted = false;
  uint64_t evicted_pages = 0;

  // The next eviction.
  bool deciding = false;  // a policy reads the sequence's scores, so its pages must stay in place
  std::optional<Plan> plan;
  PlanEpoch last_plan;

  const policy::PolicyTraits& policy() const { return cache.policy->traits(); }
  bool compaction_due() const { return must_compact && !compacted; }
  bool plan_in_flight() const { return deciding || plan.has_value(); }
  // The prompt is incomplete, or its compaction is not done.
  bool in_prompt() const { return logical_length < prompt_tokens || compaction_due(); }
  bool orphaned() const { return orphaned_at.has_value(); }
  // A sequence can outlive its worker if a client can ask for it again, except while a compaction
  // waits. The lost worker may have moved some of the tokens, and no record says which. A drop
  // moves no token, so it is harmless.
  bool can_be_orphaned() const {
    return !metadata.resume_token.empty() && !(compaction_due() && plan_in_flight());
  }

  // Tokens that may still be appended.
  uint64_t remaining() const { return uint64_t{prompt_tokens} + max_new_tokens - logical_length; }
  // Tokens in full pages.
  uint32_t FullTokens(size_t layer) const;
  bool OverBudget(size_t layer) const;
  // Pages that the layer should hold now.
  uint64_t PagesWanted(size_t layer) const;
  uint64_t held_pages() const;
  // Pages, beyond those held, that the rest of the sequence's life can need over all layers.
  uint64_t PagesPromised() const;
};

// FAILED_PRECONDITION that names the sequence.
absl::Status Refuse(const SequenceRecord& record, absl::string_view why);

// The pages that a sequence is admitted for, over all layers. It is the worst case of its whole
// life (the prompt and max_new_tokens, or the budget and two pages), because a running sequence
// cannot be paused: if the pool ran out under it, a worker's step would fail for lack of a page.
uint64_t WorstCasePages(const OpenRequest& request, const CacheGeometry& geometry);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_RECORD_H_
