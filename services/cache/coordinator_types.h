// What goes into the coordinator and comes out of it. Plain values.
#ifndef FOLIO_SERVICES_CACHE_COORDINATOR_TYPES_H_
#define FOLIO_SERVICES_CACHE_COORDINATOR_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "services/cache/block_table.h"
#include "services/common/ids.h"
#include "services/policy/registry.h"

namespace folio::cache {

// What a sampler needs to go on identically on another worker.
struct SamplingRecord {
  float temperature = 0;
  uint32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 0;
};

// Kept with a sequence, and not read: what it takes to go on identically on another worker.
struct SequenceNotes {
  SamplingRecord sampling;
  std::string label;         // shown to operators
  std::string resume_token;  // whoever has it may claim the sequence; empty: nobody may
  std::string output;        // of the worker
};

struct OpenRequest {
  WorkerId worker;
  std::vector<TokenId> prompt;
  TokenCount max_new_tokens;
  policy::CacheConfig cache;
  SequenceNotes notes;
};

struct Opened {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  policy::CacheConfig cache;
  LayerPageLists pages;  // the whole prompt and one page ahead
  policy::ScoreNeed scores;
  policy::ScoreNeed prompt_scores;  // on the board's second plane
  std::vector<SequenceId> ended;    // orphans that made room for it
};

struct CommitRequest {
  WorkerId worker;
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  TokenCount logical_length;     // after the step
  std::vector<TokenId> sampled;  // appended to the record
  std::vector<PageRef> filled;   // decode: the pages that became full, in the order of their layers
};

struct CompactAction {
  std::vector<std::vector<SlotIndex>> keep;  // [layer][kept], ascending
  std::vector<PageCount> spare;              // [layer] pages that stay behind the survivors
};
struct DropAction {
  std::vector<std::optional<BlockIndex>> block;  // [layer]; none where nothing goes
};
struct Plan {
  SequenceId sequence;
  PlanEpoch epoch;
  std::variant<CompactAction, DropAction> action;
};

// What a commit or an acknowledgement leads to. At most one plan waits for a sequence at a time.
struct Outcome {
  LayerPageLists granted;  // empty, or one list per layer to append
  std::optional<Plan> plan;
};

enum class SequenceState { kPrefill, kDecode, kEvicting, kOrphaned };

struct SequenceInfo {
  SequenceId id;
  WorkerId worker;
  std::string label;
  SequenceState state = SequenceState::kPrefill;
  policy::CacheConfig cache;
  TokenCount prompt_tokens;
  TokenCount max_new_tokens;
  TokenCount logical_length;
  TokenCount resident;  // of the layer that holds most
  PageCount held_pages;
  PageCount reserved_pages;
  TokenCount evicted_tokens;
  PageCount evicted_pages;
  PlanEpoch plan_epoch;
  LeaseEpoch lease_epoch;
  absl::Duration age;
  absl::Duration orphan_left;  // until an orphan ends
};

struct LayerTableInfo {
  PageList pages;
  TokenCount resident;
  std::vector<PositionRange> kept;
};

struct SequenceDetail {
  SequenceInfo info;
  std::vector<LayerTableInfo> layers;
};

// What a policy would take from one layer now: tokens, or the next block.
struct ExplainedLayer {
  TokenCount budget;
  TokenCount resident;
  std::vector<PositionRange> drop;  // logical positions
  std::optional<BlockIndex> block;
  std::vector<float> scores;  // per token with `drop`, else per full block
};

struct Explanation {
  policy::CacheConfig cache;
  bool due = false;  // some layer is over its budget
  std::vector<ExplainedLayer> layers;
};

struct WorkerInfo {
  WorkerId id;
  std::string name;
  uint32_t sequences = 0;
  absl::Duration lease_remaining;
};

struct PoolInfo {
  PageCount total, free, held, quarantined, reserved;
  uint32_t sequences = 0;
  uint32_t orphans = 0;  // of these
  std::vector<WorkerInfo> workers;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_TYPES_H_
