// Sequence owns what one sequence has in the cache: its record, its pages, the pages promised to it
// and the block scores kept between decisions. Its methods are the transitions of a sequence's
// life: grant pages, commit, decide, apply a plan, park, lose a worker, end.
//
// It knows no lock and no other sequence. Thread-compatible, guarded by the coordinator's lock.
// Pages must return to the pool through GiveUpPages before the sequence is destroyed.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_H_

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/cache/claim.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/decision.h"
#include "services/cache/journal.h"
#include "services/cache/page_pool.h"
#include "services/cache/saved_sequence.h"
#include "services/cache/score_board.h"
#include "services/cache/sequence_record.h"
#include "services/policy/kept_scores.h"

namespace folio::cache {

class Sequence {
 public:
  // Begins as a parked sequence. Precondition: the request's settings are valid. From its first
  // Unpark on the journal is told each change. It is borrowed, and may be null.
  Sequence(SequenceId id, const OpenRequest& request, const CacheGeometry& geometry,
           Admission admission, SteadyTime opened, Journal* journal = nullptr);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  const SequenceRecord& record() const {
    Settle();
    return record_;
  }
  // The record whose block tables may lack the tokens of the last quiet commits.
  const SequenceRecord& record_without_tables() const { return record_; }
  PageCount reserved_pages() const { return reservation_.count(); }

  // Gives each layer the pages it should hold now and returns them, or an empty list if none is
  // due. Nothing is given while a plan waits. Its acknowledgement does that. If the pool has fewer
  // pages than are due beyond the promise, none is given, and the sequence is `starved`.
  LayerPageLists GrantPages(PagePool& pool, SteadyTime now);

  // Precondition: CheckCommit(record(), request) is OK. After a commit that is `quiet` by
  // IsQuiet(record_without_tables(), request), no decision and no page is due. Returns how many
  // pages went back to the pool because windows had passed them.
  uint64_t ApplyCommit(const CommitTokens& request, bool quiet, PagePool& pool, SteadyTime now);

  // Returns what the policy is to decide now, if anything. The sequence is then `deciding` until
  // FinishDecision.
  std::optional<DecisionInput> BeginDecision(const ScoreBoard& board);
  // Numbers the plan and keeps it until it is acknowledged. `kept` comes from BeginDecision.
  const Plan& FinishDecision(Action action, std::vector<policy::KeptScores> kept);

  // Carries out the waiting plan in the tables. Freed pages return to the pool, and the reservation
  // shrinks to the worst case of the rest of the sequence's life.
  void ApplyPlan(PagePool& pool, SteadyTime now);

  // Gives all pages back and forgets what was in them. If the worker has `swapped` them to the
  // slots that it was offered, and the prompt is done, they keep the contents. Precondition: no
  // policy is deciding on it. A parked sequence may be parked again, to forget the contents too.
  void Park(PagePool& pool, bool swapped);
  // Ends that. Precondition: it is parked, and the pool promises PageNeeds::ToPromise.
  void Unpark(PageReservation reservation);
  // Its worker is to park it. No pages are given meanwhile.
  void AskBack() { record_.asked_back = true; }
  // `offer` is slots for all of its pages, or none.
  void NoteTold(SwapSlots offer);
  // It need not be parked after all, and is starved if it lacks pages now.
  void LeaveAlone();

  // The worker is lost. If it may have moved tokens, the sequence is parked, to be computed again.
  // Its pages are then free, or quarantined unless `quiesced`. Precondition:
  // record().can_be_orphaned(), and no policy is deciding on it.
  void Orphan(SteadyTime now, PagePool& pool, bool quiesced);
  // The worker of this orphan is proven gone. Only the first call counts. If it was copying the
  // contents back, it is unknown how far it came, so the sequence is swapped out again.
  void MakeClaimable(SteadyTime now, PagePool& pool);
  // Another worker continues an orphan, under the next lease epoch.
  Claimed Claim(const ClaimRequest& request, PagePool& pool, SteadyTime now);

  // The end. No page or slot is held afterwards: they are free, or quarantined unless `quiesced`,
  // because the last worker may still write them.
  void GiveUpPages(PagePool& pool, bool quiesced);

 private:
  friend class Coordinator;
  friend class Restoration;
  friend class SequenceOrders;
  // A worker with such chunks is to claim it. A prompt that was promised fewer pages at a time is
  // parked, to be computed again.
  void Widen(TokenCount prefill_ahead, PagePool& pool);
  void TellAll();  // the journal
  void Tell(SavedChange change);
  // It holds no pages any more. Either its slots have the contents, or it will be computed again.
  void BecomeParked();
  void ForgetContents();
  // Drops the blocks from the tables.
  void ApplyDrop(const DropAction& drop, PagePool& pool, PastPlan& past);
  // Moves the survivors together.
  void ApplyCompaction(const CompactAction& compact, PagePool& pool, PastPlan& past);
  // Promises the sequence the pages that it lacks. If there are too few it is `starved`, and the
  // result false.
  bool ReserveLacking(const PagePool& pool);
  void ResizeToPromise();
  // A prompt that was computed again may be over a budget that was lowered before. True if it is.
  bool OnPromptDone();
  uint64_t MoveWindows(PagePool& pool);
  // A block of each layer over its budget has gone.
  void NoteDrop();
  // Gives all pages back, with the contents in the slots.
  void SwapOut(PagePool& pool);
  // The pages have the contents, so the slots are free. True if that is new.
  bool NoteSwappedIn();
  // Forgives the claims in vain if the sequence is further than it ever was. True if there were
  // some.
  bool NoteProgress();

  // Brings the block tables up to date. They are a sequence's largest part, and many sequences do
  // not fit into the processor's caches together, so a quiet commit leaves them alone.
  void Settle() const;

  mutable SequenceRecord record_;
  mutable TokenCount unsettled_;  // tokens at its end that the tables lack
  // Scores of the oldest full blocks of each layer. Empty before decode, while deciding, and for a
  // policy that reads no scores.
  std::vector<policy::KeptScores> kept_;
  PageReservation reservation_;
  Journal* const journal_;
  bool told_ = false;  // the journal knows it
};

using SequenceMap = std::map<SequenceId, std::unique_ptr<Sequence>>;

// One layer of a block table, as claims and reports show it.
std::vector<LayerTableInfo> DescribeLayers(const SequenceRecord& record);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_H_
