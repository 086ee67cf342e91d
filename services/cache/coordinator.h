// The one place where pages change hands: page states, block tables, sequences, leases,
// reservations, plans. Thread-safe; one lock, never held across a policy decision or I/O. Every
// refusal is a Status that leaves everything as it was, but for the worker's lease, renewed. Calls
// that take pages away wait for a decision that still reads them (well under a millisecond).
//
// Pages of a sequence, per layer and in table order:
//   [ full pages ... ][ newest page, partly filled ][ ahead ]
// Between steps a layer holds at most floor(resident / page_tokens) + 2 pages, and never more than
// budget / page_tokens + 2 once its prompt is compacted.
#ifndef FOLIO_SERVICES_CACHE_COORDINATOR_H_
#define FOLIO_SERVICES_CACHE_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/cache/block_table.h"
#include "services/common/clock.h"
#include "services/common/geometry.h"
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

struct OpenRequest {
  WorkerId worker;
  std::vector<TokenId> prompt;
  TokenCount max_new_tokens;
  policy::CacheConfig cache;
  SamplingRecord sampling;
  std::string label;
};

struct Opened {
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  policy::CacheConfig cache;
  LayerPageLists pages;  // the whole prompt and one page ahead
};

struct CommitRequest {
  WorkerId worker;
  SequenceId sequence;
  LeaseEpoch lease_epoch;
  TokenCount logical_length;     // after the step
  std::vector<TokenId> sampled;  // appended to the record
  std::vector<PageRef> filled;   // decode, newest page became full: one per layer; else empty
};

struct CompactAction {
  std::vector<std::vector<SlotIndex>> keep;  // [layer][kept], ascending
  PageCount spare;                           // pages per layer that stay behind the survivors
};
struct DropAction {
  std::vector<BlockIndex> block;  // one per layer
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

enum class SequenceState { kPrefill, kDecode, kEvicting };

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

struct WorkerInfo {
  WorkerId id;
  std::string name;
  uint32_t sequences = 0;
  absl::Duration lease_remaining;
};

struct PoolInfo {
  PageCount total, free, held, quarantined, reserved;
  uint32_t sequences = 0;
  std::vector<WorkerInfo> workers;
};

struct CoordinatorOptions {
  CacheGeometry geometry;
  PageCount num_pages;
  absl::Duration lease_ttl = absl::Seconds(10);
  // Score board of the pool, `num_pages * geometry.scores_per_page()` floats; borrowed. Workers of
  // other processes write it; rows are read only after the commit that covers them.
  const float* score_board = nullptr;
  const Clock* clock = nullptr;  // borrowed
};

class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // A worker's lease starts here and is renewed by Renew and by each call that names the worker.
  WorkerId AddWorker(std::string name);
  absl::Status Renew(WorkerId worker);

  // Fences the worker: its sequences close, its pages are quarantined until ProveGone. With
  // `quiesced` (an orderly goodbye: nothing can write any more) they are free at once. Idempotent.
  void FenceWorker(WorkerId worker, bool quiesced);
  // The process is known to have ended: all its pages, quarantined or held, become free.
  // Idempotent.
  void ProveGone(WorkerId worker);
  // Fences workers whose lease has run out and returns them.
  std::vector<WorkerId> FenceExpired();

  // RESOURCE_EXHAUSTED says how many pages are wanted, free and held, and whether waiting can help;
  // INVALID_ARGUMENT names the field; NOT_FOUND or FAILED_PRECONDITION: the worker is unknown or
  // fenced. Reserves the worst case (prompt and max_new_tokens, or budget and slack), so that a
  // running sequence never meets a full pool.
  absl::StatusOr<Opened> Open(const OpenRequest& request);

  // FAILED_PRECONDITION on a stale lease epoch or page reference, a length that goes backwards or
  // past the pages held, a chunk that runs past the prompt's end, or decode while a compaction (in
  // synchronous mode: any plan) waits: acknowledge first. NOT_FOUND for an unknown sequence.
  //
  // The record must always hold the ids of the tokens in the cache, and may hold the one sampled
  // but not yet fed: after a commit that ends the prompt or decodes, prompt and sampled tokens
  // together number `logical_length` or one more.
  absl::StatusOr<Outcome> Commit(const CommitRequest& request);

  // The worker carried out plan `epoch`; the pages it gave up become free. The outcome grants the
  // page ahead that the plan held back, and holds the next plan if the newest page filled
  // meanwhile.
  absl::StatusOr<Outcome> Ack(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch,
                              PlanEpoch epoch);

  // All pages become free. The worker vouches that no step in flight can touch them.
  absl::Status Close(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch);

  PoolInfo pool() const;
  std::vector<SequenceInfo> sequences() const;
  absl::StatusOr<SequenceDetail> sequence(SequenceId id) const;

  // Checks every invariant of the page accounting; INTERNAL names the first that is broken.
  // O(pages); for debug builds, tests and fuzzing.
  absl::Status CheckInvariants() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_COORDINATOR_H_
