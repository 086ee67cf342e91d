// These types are the requests to the coordinator and its answers. They are plain values.
// services/base/session_types.h defines the types that workers share, such as Plan.
#ifndef FOLIO_SERVICES_CACHE_COORDINATOR_TYPES_H_
#define FOLIO_SERVICES_CACHE_COORDINATOR_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/observer.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

// These names are for callers that still write cache::Plan and the like.
using folio::CompactAction;
using folio::DropAction;
using folio::LayerPageLists;
using folio::PageList;
using folio::Plan;
using folio::PositionRange;
using folio::SamplingRecord;

struct CoordinatorOptions {
  CacheGeometry geometry;
  PageCount num_pages;
  absl::Duration lease_ttl = absl::Seconds(10);
  // How long a sequence waits for another worker after its own is lost. With 0 it ends at once.
  absl::Duration orphan_ttl;
  // The pool's score board, `geometry.score_board_floats(num_pages)` floats, borrowed. Workers in
  // other processes write it. A row is read only after the commit that covers it.
  const float* score_board = nullptr;
  const Clock* clock = nullptr;             // borrowed
  CoordinatorObserver* observer = nullptr;  // borrowed; may be null
};

// SequenceMetadata is kept for a sequence but never read. Another worker needs it to continue
// identically.
struct SequenceMetadata {
  SamplingRecord sampling;
  std::string label;         // shown to operators
  std::string resume_token;  // a claim must show it; if empty the sequence cannot be claimed
  std::string output;        // belongs to the worker
};

struct OpenRequest {
  WorkerId worker;
  std::vector<TokenId> prompt;
  TokenCount max_new_tokens;
  policy::CacheConfig cache;
  SequenceMetadata metadata;
};

struct Opened {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  policy::CacheConfig cache;
  LayerPageLists pages;  // for the whole prompt, and one page ahead
  ScoreNeed scores;
  ScoreNeed prompt_scores;        // on the board's second channel
  std::vector<SequenceId> ended;  // orphans that made room for it
};

struct CommitRequest {
  WorkerId worker;
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  TokenCount logical_length;     // after the step
  std::vector<TokenId> sampled;  // appended to the record
  std::vector<PageRef> filled;   // decode: pages that became full, in the order of their layers
};

// Outcome is the result of a commit or an acknowledgement. At most one plan waits for a sequence at
// a time.
struct Outcome {
  LayerPageLists granted;  // empty, or one list per layer to append
  std::optional<Plan> plan;
};

// One layer of a sequence's block table.
struct LayerTableInfo {
  PageList pages;
  TokenCount resident;
  std::vector<PositionRange> kept;  // positions of the resident tokens, ascending
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_TYPES_H_
