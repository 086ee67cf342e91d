// Parking takes the pages of running sequences back and gives them out again. A parked sequence
// keeps its id, its worker and its record, and holds no pages. Its worker computes the prompt
// again, and then the tokens that were sampled before, step by step as the first time, so that the
// sequence continues with the same tokens. If there is swap memory (see swap_space.h) and room in
// it, the worker copies the pages there instead, and back when the sequence has pages again. Then
// nothing is computed again.
//
// A worker parks a sequence because it was asked to (see Attend), or because its client does not
// read. Thread-safe. Each call takes the coordinator's lock. The errors for a worker that does not
// hold the sequence are those of Coordinator::Commit.
#ifndef FOLIO_SERVICES_CACHE_PARKING_H_
#define FOLIO_SERVICES_CACHE_PARKING_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/cache/coordinator.h"
#include "services/cache/coordinator_types.h"

namespace folio::cache {

class Parking {
 public:
  // Borrows the coordinator.
  explicit Parking(Coordinator& coordinator) : coordinator_(coordinator) {}

  // The worker vouches that no step in flight can touch the pages, and gives up a plan that waits.
  // If it has `swapped` the pages to the slots that it was offered (see Attention), the sequence
  // keeps contents and plan. During the prompt they are forgotten all the same. Does nothing to a
  // sequence that is parked already. Returns true if the contents are kept.
  absl::StatusOr<bool> Park(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch,
                            bool swapped = false);

  // Gives a parked sequence pages for its prompt, or for what was swapped out. The worker's next
  // commit or acknowledgement says that this was copied back. RESOURCE_EXHAUSTED, which MayFitLater
  // tells, if there is no room now. Parked sequences come before new requests. FAILED_PRECONDITION:
  // it is not parked.
  absl::StatusOr<Unparked> Unpark(WorkerId worker, SequenceId sequence, LeaseEpoch lease_epoch);

  // Returns everything that the worker is to be told beside the answers to its requests. To be
  // called after every request of a worker, which told its progress to Coordinator::Renew.
  Attention Attend(WorkerId worker);

 private:
  Coordinator& coordinator_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PARKING_H_
