// Inspector reads a coordinator and changes nothing: what operators see, what an eviction would
// take now, and whether the page accounting is consistent. `folioctl` shows what it reports.
//
// Thread-safe. Each call takes the coordinator's lock for as long as it copies.
#ifndef FOLIO_SERVICES_CACHE_INSPECTOR_H_
#define FOLIO_SERVICES_CACHE_INSPECTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/ids.h"
#include "services/cache/coordinator.h"
#include "services/cache/decision.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

enum class SequenceState { kPrefill, kDecode, kEvicting, kOrphaned, kParked };
inline constexpr size_t kSequenceStates = 5;

struct SequenceInfo {
  SequenceId id;
  WorkerId worker;
  std::string label;
  std::string tenant;
  SequenceState state = SequenceState::kPrefill;
  policy::CacheConfig cache;
  TokenCount prompt_tokens;
  TokenCount max_new_tokens;
  TokenCount logical_length;
  TokenCount resident;  // of the layer that holds most
  PageCount held_pages;
  PageCount reserved_pages;
  PageCount needed_pages;   // the most that it may come to hold
  uint32_t swap_slots = 0;  // that it has for any use
  TokenCount evicted_tokens;
  PageCount evicted_pages;
  PageCount pages_behind;  // which windows have passed, so that they are free
  PlanEpoch plan_epoch;
  LeaseEpoch lease_epoch;
  absl::Duration age;
  absl::Duration orphan_left;  // until an orphan ends
  int32_t priority = 0;
  bool pinned = false;
  bool closing = false;    // an operator has ended it, and it still has pages
  bool resumable = false;  // another worker may claim it
};

struct SequenceDetail {
  SequenceInfo info;
  std::vector<LayerTableInfo> layers;
  std::vector<PastPlan> plans;  // the newest ones, oldest first
  SteadyTime now;               // for their age
};

// ExplainedLayer is what a policy would take from one layer now: tokens, or the next block.
struct ExplainedLayer {
  TokenCount budget;
  TokenCount resident;
  std::vector<PositionRange> drop;  // logical positions
  std::optional<BlockIndex> block;
  // Per token with `drop`, else per full block. Empty where another layer judges for it.
  std::vector<float> scores;
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
  std::optional<StepProgress> progress;  // as the worker told it last
};

struct PoolInfo {
  PageCount total, free, held, quarantined, reserved;
  uint32_t swap_slots = 0, free_swap_slots = 0, quarantined_swap_slots = 0;
  uint32_t sequences = 0;
  std::array<uint32_t, kSequenceStates> sequences_by_state = {};
  uint64_t given_up = 0;      // since the start; see kMaxFruitlessClaims
  uint64_t window_pages = 0;  // that became free since the start because windows had passed them
  std::vector<WorkerInfo> workers;

  uint32_t in_state(SequenceState state) const {
    return sequences_by_state[static_cast<size_t>(state)];
  }
  uint32_t orphans() const { return in_state(SequenceState::kOrphaned); }
};

class Inspector {
 public:
  // Borrows the coordinator.
  explicit Inspector(const Coordinator& coordinator) : coordinator_(coordinator) {}

  PoolInfo pool() const;
  std::vector<SequenceInfo> sequences() const;
  // The tenants of the first requests of workers' lines that wait for pages, once for each.
  std::vector<std::string> WaitingTenants() const;
  absl::StatusOr<SequenceDetail> sequence(SequenceId id) const;
  // The newest `count` of the sequences that were given up, at most 1024, oldest first.
  std::vector<SequenceId> NewestGivenUp(uint64_t count) const;

  // Tells what a policy with the settings `cache` (none: the sequence's own) would evict if it had
  // to decide now. Takes memory for the scores of one layer beside the answer. INVALID_ARGUMENT as
  // for Open. NOT_FOUND. FAILED_PRECONDITION during the prompt or when the policy reads scores that
  // the sequence's worker does not write. UNAVAILABLE when evictions kept changing the sequence:
  // ask again.
  absl::StatusOr<Explanation> Explain(SequenceId id,
                                      const std::optional<policy::CacheConfig>& cache) const;

  // Checks every invariant of the page accounting. INTERNAL names the first that is broken.
  // O(pages), for debug builds, tests and fuzzing.
  absl::Status CheckInvariants() const;

 private:
  // A sequence as a policy would see it, and its state at that moment.
  struct DryRunInput {
    DecisionInput input;
    policy::CacheConfig cache;
    PlanEpoch plan_epoch;
    std::vector<LayerTableInfo> layers;
  };
  absl::StatusOr<DryRunInput> DryRun(SequenceId id,
                                     const std::optional<policy::CacheConfig>& cache) const;
  // Whether the layer's pages are where `seen` has them, with no plan since.
  absl::StatusOr<bool> StillThere(const DryRunInput& seen, size_t layer) const;

  const Coordinator& coordinator_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_INSPECTOR_H_
