// Preemption decides which running sequences give their pages back when the pool has run dry, which
// can happen under Admission::kOptimistic.
//
// A sequence that should get a page and finds none is starved. It still has the tokens of the page
// ahead, and then stands still. Its worker or another one is asked to park the youngest sequence of
// the lowest priority, and so on until the pages that come back suffice. The oldest one of the
// highest priority is never parked, so some sequence always makes progress. The pages come back
// when the worker has collected the steps that can touch them and says so (Parking::Park).
//
// A sequence whose client does not read stands still with its pages. The manager is not told so.
// But each step of a worker has a token of every sequence that can decode, so the manager sees that
// the worker's steps leave this one out. It is asked back when others wait for pages, whatever its
// priority, because its client does not wait for its tokens.
//
// An operator may pin a sequence, which is then not asked back, or have one asked back at once.
//
// Works on the coordinator's sequences, pool and orphanage, which its lock guards.
// Thread-compatible.
#ifndef FOLIO_SERVICES_CACHE_PREEMPTION_H_
#define FOLIO_SERVICES_CACHE_PREEMPTION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"
#include "services/base/step_progress.h"
#include "services/cache/coordinator_types.h"
#include "services/cache/orphanage.h"
#include "services/cache/page_pool.h"
#include "services/cache/sequence.h"
#include "services/cache/swap_space.h"

namespace folio::cache {

class Preemption {
 public:
  // A sequence that its worker leaves out for so long stands still.
  static constexpr absl::Duration kStandsStillAfter = absl::Seconds(2);

  // The state of the line and of a worker.
  struct Circumstances {
    SteadyTime now;
    bool others_wait = false;              // parked sequences or new ones wait for pages
    std::optional<StepProgress> progress;  // told just now, unless the worker never tells it
  };

  // Borrows all.
  Preemption(SequenceMap& sequences, PagePool& pool, SwapSpace& swap, Orphanage& orphanage)
      : sequences_(sequences), pool_(pool), swap_(swap), orphanage_(orphanage) {}

  // An operator has given an order (see steering.h).
  void NoteOrder() { orders_ = true; }
  // A sequence was found starved.
  void NoteShortage() { shortage_ = true; }

  // Returns the pages that starved sequences of `worker` got, and the sequences that it is to park.
  // Ends orphans whose grace is over, and asks sequences back as far as that does
  // not suffice. Quick when no sequence is starved and none waits.
  Attention Attend(WorkerId worker, const Circumstances& circumstances);

  // Some sequence is starved, so no other may be let in.
  bool starving() const;

 private:
  // Tells the worker of orders for its sequences.
  void TellOrders(WorkerId worker, Attention& attention);
  // Ends orphans, which it returns, or asks sequences back.
  std::vector<SequenceId> Relieve(SteadyTime now);
  // Those of `worker` that are starved, the oldest one of the highest priority first.
  std::vector<Sequence*> StarvedOf(WorkerId worker) const;
  // The sequence to ask back next, or null if only pinned ones are left, or the one that is never
  // parked.
  Sequence* NextVictim() const;
  // Asks back those of `worker` that stand still.
  void AskBackIdle(WorkerId worker, const Circumstances& circumstances, Attention& attention);
  // Tells the worker of a sequence that was asked back, with slots for all its pages if it can be
  // swapped and there is room.
  void Tell(Sequence& sequence, Attention& attention);

  SequenceMap& sequences_;
  PagePool& pool_;
  SwapSpace& swap_;
  Orphanage& orphanage_;
  bool shortage_ = false;  // some sequence may be starved, or asked back and not told
  bool orders_ = false;    // some worker may have to be told of an order
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PREEMPTION_H_
