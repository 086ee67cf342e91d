// One sequence's record: its tokens, its block tables, its promised pages and the plan that waits
// for it. Knows the rules of a sequence's life; knows no lock and no other sequence.
// Thread-compatible; the coordinator's lock guards it. Pages go back to the pool through Release or
// Quarantine before the sequence is destroyed.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/cache/block_table.h"
#include "services/cache/claim.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/decision.h"
#include "services/cache/footprint.h"
#include "services/cache/page_pool.h"
#include "services/cache/score_board.h"
#include "services/common/geometry.h"
#include "services/common/ids.h"
#include "services/policy/policy.h"

namespace folio::cache {

class Sequence {
 public:
  // The request's settings must be valid. `reservation` holds WorstCase(...).
  Sequence(SequenceId id, const OpenRequest& request, std::shared_ptr<const policy::Policy> policy,
           const CacheGeometry& geometry, PageReservation reservation, absl::Time opened);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  // The pages that a sequence is admitted for, over all layers.
  static uint64_t WorstCase(const OpenRequest& request, const policy::Policy& policy,
                            const CacheGeometry& geometry);

  SequenceId id() const { return id_; }
  WorkerId worker() const { return worker_; }
  LeaseEpoch lease_epoch() const { return lease_epoch_; }
  std::optional<absl::Time> orphaned_at() const { return orphaned_at_; }  // its worker is lost
  // A policy is reading the sequence's scores; its pages must stay where they are.
  bool deciding() const { return deciding_; }
  const std::optional<Plan>& plan() const { return plan_; }

  // OK, or FAILED_PRECONDITION saying what was expected and what came. Changes nothing.
  absl::Status CheckCommit(const CommitRequest& request) const;
  void ApplyCommit(const CommitRequest& request);  // precondition: CheckCommit is OK

  // Gives each layer the pages it should hold now, and returns them; empty when none is due. While
  // a plan waits nothing is given: its acknowledgement does that.
  LayerPageLists GrantPages(PagePool& pool);

  // What a policy with the settings `cache` would be told if it had to decide now: all resident
  // tokens, every layer. Changes nothing. FAILED_PRECONDITION in the prompt, or when the board
  // holds scores of another kind than the policy reads.
  absl::StatusOr<DecisionInput> Imagine(const policy::CacheConfig& cache,
                                        const ScoreBoard& board) const;
  const policy::CacheConfig& cache() const { return cache_; }

  // What the policy is to decide now, if anything: then it is `deciding` until FinishDecision.
  std::optional<DecisionInput> BeginDecision(const ScoreBoard& board);
  // Numbers the plan and keeps it until it is acknowledged. `kept` is what BeginDecision gave.
  const Plan& FinishDecision(Action action, std::vector<policy::KeptScores> kept);

  // Carries out the waiting plan in the tables; freed pages go to the pool, and the reservation
  // shrinks to what the rest of the sequence's life can need.
  void ApplyPlan(PagePool& pool);

  // sequence_claim.cc: its worker is lost, and another goes on. Not while a compaction waits, which
  // may have moved tokens; a drop moves none.
  bool can_be_orphaned() const;
  void Orphan(absl::Time now);
  bool Knows(absl::string_view resume_token) const;
  Claimed Claim(WorkerId worker);

  // The end: no page is held afterwards.
  void Release(PagePool& pool);
  void Quarantine(PagePool& pool);

  SequenceInfo Info(absl::Time now) const;
  std::vector<LayerTableInfo> Layers() const;
  uint64_t held_pages() const;
  PageCount reserved_pages() const { return reservation_.count(); }

  // INTERNAL naming the first broken invariant. Adds each page it holds to `seen`, by page id.
  absl::Status CheckInvariants(const PagePool& pool, std::vector<bool>& seen) const;

 private:
  // The prompt is not all there yet, or waits for its compaction.
  bool in_prompt() const;
  bool compaction_waits() const { return must_compact_ && !compacted_ && plan_in_flight(); }
  bool plan_in_flight() const { return deciding_ || plan_.has_value(); }
  uint64_t remaining() const;
  uint64_t PagesWanted(size_t layer) const;
  uint64_t PagesPromised(size_t layer) const;
  uint64_t PagesPromised() const;                          // beyond those held, over all layers
  uint32_t FullTokens(const BlockTable& table) const;      // tokens in full pages
  TokenCount PromptTokens(const BlockTable& table) const;  // resident ones of the prompt
  // Of its first `tokens`, those whose scores are written.
  TokenCount ScoredTokens(const BlockTable& table, TokenCount tokens, policy::ScoreTime) const;
  bool OverBudget(size_t layer) const;
  DecisionInput EmptyInput(std::shared_ptr<const policy::Policy> policy) const;  // no layers
  DecisionInput::Layer SnapshotLayer(size_t layer, TokenCount tokens, const policy::Policy& policy,
                                     const policy::CacheConfig& cache,
                                     const ScoreBoard& board) const;
  DecisionInput Snapshot(const ScoreBoard& board) const;

  absl::Status CheckPromptCommit(const CommitRequest& request) const;
  absl::Status CheckDecodeCommit(const CommitRequest& request) const;
  absl::Status CheckFilled(const CommitRequest& request) const;
  absl::Status CheckRecord(const CommitRequest& request) const;
  absl::Status CheckTable(size_t layer) const;
  absl::Status Refuse(absl::string_view why) const;

  const SequenceId id_;
  WorkerId worker_;  // the last one, of an orphan
  LeaseEpoch lease_epoch_{1};
  std::optional<absl::Time> orphaned_at_;
  const CacheGeometry geometry_;
  const std::shared_ptr<const policy::Policy> policy_;
  const policy::CacheConfig cache_;
  const SequenceNotes notes_;
  const absl::Time opened_;
  const uint32_t prompt_tokens_;
  const uint32_t max_new_tokens_;
  const std::vector<Footprint> footprints_;  // [layer]
  const bool must_compact_;                  // the prompt is longer than some layer's budget

  std::vector<TokenId> tokens_;  // prompt and sampled
  uint32_t logical_length_ = 0;
  std::vector<BlockTable> layers_;
  // Of the oldest full blocks of each layer; empty before decode, while deciding, and for a policy
  // that reads no scores.
  std::vector<policy::KeptScores> kept_;
  PageReservation reservation_;
  bool compacted_ = false;
  bool deciding_ = false;
  std::optional<Plan> plan_;
  PlanEpoch last_plan_;
  uint64_t evicted_pages_ = 0;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_H_
