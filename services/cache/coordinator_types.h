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
#include "services/base/layer_range.h"
#include "services/base/session_types.h"
#include "services/base/urgency.h"
#include "services/cache/coordinator_options.h"
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
using folio::SwapOffer;

// SequenceMetadata is kept for a sequence but never read. Another worker needs it to continue
// identically.
struct SequenceMetadata {
  SamplingRecord sampling;
  std::string label;         // shown to operators
  std::string resume_token;  // a claim must show it; if empty the sequence cannot be claimed
  std::string output;        // belongs to the worker
};

// WorkerAbilities is what the worker of one sequence can do.
struct WorkerAbilities {
  // Prompt tokens behind the committed ones for which it needs pages at a time; 0 for all of them.
  TokenCount prefill_ahead;
  bool parks = false;    // it gives a sequence's pages back when it is asked to
  bool streams = false;  // it stops prefill where a prompt is compacted before its end
  bool swaps = false;    // it copies the pages to swap memory when it parks, and back later
};

struct OpenRequest {
  WorkerId worker;
  std::vector<TokenId> prompt;
  TokenCount max_new_tokens;
  policy::CacheConfig cache;
  SequenceMetadata metadata;
  bool waits_for_room = false;  // the worker asks again if the pool is full for now
  WorkerAbilities abilities = {};
  Urgency urgency = {};
  std::string tenant = {};  // see fair_turns.h
};

// The status of an Open that failed because the pool is full now, and not for good.
bool MayFitLater(const absl::Status& status);

struct Opened {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  policy::CacheConfig cache;
  LayerPageLists pages;  // for the prompt, or for its first prefill_ahead tokens
  ScoreNeed scores;
  ScoreNeed prompt_scores;        // on the board's second channel
  LayerRange scored_layers;       // the layers whose scores are read
  std::vector<SequenceId> ended;  // orphans that made room for it
};

// A sequence that its worker is to end, because an operator wants it.
struct OrderedClose {
  SequenceId sequence;
  std::string why;
};

// Attention is what a worker is to be told beside the answers to its requests.
struct Attention {
  std::vector<PageGrant> granted;  // to sequences that had to wait for pages
  std::vector<SequenceId> park;    // the worker stops their steps and then parks them
  std::vector<SwapOffer> swap;     // for some of these, in the same order
  std::vector<SequenceId> ended;   // orphans that made room
  std::vector<OrderedClose> close;
  bool clear_pages = false;  // it clears all pages that it is given now
};

// Evicted is what a plan that was carried out gave up.
struct Evicted {
  std::string policy;  // its name
  PageCount pages;
};

// Outcome is the result of a commit or an acknowledgement. At most one plan waits for a sequence at
// a time.
struct Outcome {
  LayerPageLists granted;  // empty, or one list per layer to append
  std::optional<Plan> plan;
  std::optional<Evicted> evicted;  // by the plan that was acknowledged
};

// One layer of a sequence's block table.
struct LayerTableInfo {
  PageList pages;
  TokenCount resident;
  std::vector<PositionRange> kept;  // positions of the resident tokens, ascending
  std::vector<SwapSlot> slots;      // where the contents are if the sequence was swapped out
};

// A parked sequence that got pages again.
struct Unparked {
  LayerPageLists pages;  // as in Opened
  // If it was swapped out: its tables with these pages, to be filled from their slots, how far it
  // had come, and a DropAction that waits.
  std::vector<LayerTableInfo> swapped;
  TokenCount logical_length;
  std::optional<Plan> plan;
  std::vector<SequenceId> ended;  // orphans that made room for it
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_TYPES_H_
