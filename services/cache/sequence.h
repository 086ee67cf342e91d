// Sequence owns what one sequence has in the cache: its record, its pages, the pages promised to it
// and the block scores kept between decisions. Its methods are the transitions of a sequence's
// life: grant pages, commit, decide, apply a plan, lose a worker, end.
//
// It knows no lock and no other sequence. Thread-compatible, guarded by the coordinator's lock.
// Pages must return to the pool through Release or Quarantine before the sequence is destroyed.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_H_

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/claim.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/decision.h"
#include "services/cache/page_pool.h"
#include "services/cache/score_board.h"
#include "services/cache/sequence_record.h"
#include "services/policy/kept_scores.h"

namespace folio::cache {

class Sequence {
 public:
  // Precondition: the request's settings are valid, and `reservation` holds WorstCasePages.
  Sequence(SequenceId id, const OpenRequest& request, const CacheGeometry& geometry,
           PageReservation reservation, absl::Time opened);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  const SequenceRecord& record() const { return record_; }
  PageCount reserved_pages() const { return reservation_.count(); }

  // Gives each layer the pages it should hold now and returns them, or an empty list if none is
  // due. Nothing is given while a plan waits. Its acknowledgement does that.
  LayerPageLists GrantPages(PagePool& pool);

  // Precondition: CheckCommit(record(), request) is OK.
  void ApplyCommit(const CommitRequest& request);

  // Returns what the policy is to decide now, if anything. The sequence is then `deciding` until
  // FinishDecision.
  std::optional<DecisionInput> BeginDecision(const ScoreBoard& board);
  // Numbers the plan and keeps it until it is acknowledged. `kept` comes from BeginDecision.
  const Plan& FinishDecision(Action action, std::vector<policy::KeptScores> kept);

  // Carries out the waiting plan in the tables. Freed pages return to the pool, and the reservation
  // shrinks to the worst case of the rest of the sequence's life.
  void ApplyPlan(PagePool& pool);

  // The worker is lost. Precondition: record().can_be_orphaned().
  void Orphan(absl::Time now);
  // `worker` continues an orphan, under the next lease epoch.
  Claimed Claim(WorkerId worker);

  // The end. No page is held afterwards: pages are free, or quarantined because the last worker may
  // still write them.
  void Release(PagePool& pool);
  void Quarantine(PagePool& pool);

 private:
  SequenceRecord record_;
  // Scores of the oldest full blocks of each layer. Empty before decode, while deciding, and for a
  // policy that reads no scores.
  std::vector<policy::KeptScores> kept_;
  PageReservation reservation_;
};

using SequenceMap = std::map<SequenceId, std::unique_ptr<Sequence>>;

// One layer of a block table, as claims and reports show it.
std::vector<LayerTableInfo> DescribeLayers(const SequenceRecord& record);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_H_
