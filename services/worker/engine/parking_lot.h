// ParkingLot is the part of a manager session about sequences that give their pages back for a
// while, because the manager's pool has run dry. It says which of them are to be parked now, and
// asks for pages for them again.
//
// A parked sequence starts again from its prompt, unless its pages were swapped (see host_swap.h).
// The tokens that it sampled before are fed step by step as the first time, so that K, V, scores
// and evictions become what they were, and its client sees nothing of it but a pause.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_PARKING_LOT_H_
#define FOLIO_SERVICES_WORKER_ENGINE_PARKING_LOT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "services/base/session_types.h"
#include "services/base/steady_time.h"
#include "services/model/executor/sequence_tables.h"
#include "services/worker/engine/sequence.h"
#include "services/worker/link/manager_link.h"

namespace folio::worker {

// One caller thread, the step loop's.
class ParkingLot {
 public:
  // Borrows all; `sequences` is the session's.
  ParkingLot(const SequenceList& sequences, const model::SequenceTables& tables, ManagerLink* link)
      : sequences_(sequences), tables_(tables), link_(link) {}

  // The manager asks for the sequence's pages.
  void OnAskedBack(Sequence* sequence);
  // The sequences that are to be parked and whose last step is among the first `collected`.
  std::vector<Sequence*> Due(uint64_t collected) const;

  // Asks the manager for pages for the parked sequence that is due first, or for those that running
  // sequences lack, if it is time to ask again. With `places` of 0 no sequence is unparked.
  void Ask(size_t places, SteadyTime now);
  // The manager has answered. Returns true if it gave pages.
  bool OnAnswer(const UnparkResult& result);
  // Pages were given back, so that Ask need not wait.
  void OnRoom() { next_ask_ = SteadyTime::InfinitePast(); }
  // When Ask next has something to do.
  SteadyTime NextAsk() const;

  // There is none that waits to be computed again, except those whose clients do not read.
  bool empty() const { return Next() == nullptr; }
  // How many times the manager asked for pages.
  uint64_t preemptions() const { return preemptions_; }

 private:
  // The parked sequence that is due first, or null.
  Sequence* Next() const;
  // Some sequence could run if it had pages.
  bool lacks_pages() const;

  const SequenceList& sequences_;
  const model::SequenceTables& tables_;
  ManagerLink* const link_;
  bool unparking_ = false;  // the manager has yet to answer
  absl::Duration pause_;    // until it is asked again
  SteadyTime next_ask_ = SteadyTime::InfinitePast();
  uint64_t preemptions_ = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_PARKING_LOT_H_
