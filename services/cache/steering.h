// Steering carries out the orders of an operator for one sequence: to end it, to have it give its
// pages back, to keep it from having to, or to lower its budget. It takes no page itself. The
// manager cannot call a worker, so it notes an order in the sequence's record, and the worker hears
// of it with the reply to its next message (Parking::Attend), or gets plans. The pages then come
// back on the usual ways (Coordinator::Close and Step, Parking::Park), when no step can touch them.
//
// Thread-safe. Each call takes the coordinator's lock. NOT_FOUND: no such sequence is open.
#ifndef FOLIO_SERVICES_CACHE_STEERING_H_
#define FOLIO_SERVICES_CACHE_STEERING_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/cache/coordinator.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

// LoweredBudget is what an order to lower a budget has made of it.
struct LoweredBudget {
  WorkerId worker;
  policy::CacheConfig cache;  // from now on
  PageCount over;             // pages of all layers that are to go
};

class Steering {
 public:
  // Borrows the coordinator.
  explicit Steering(Coordinator& coordinator) : coordinator_(coordinator) {}

  // Each call returns the sequence's worker, for the record of the order. For an orphan it is the
  // last one.

  // Has the worker end the sequence with ABORTED and `why`, and no other worker may claim it. An
  // orphan ends at once. Its pages are free then, or quarantined while its last worker may still
  // write them. A second order changes nothing.
  absl::StatusOr<WorkerId> Close(SequenceId id, std::string why);

  // Has the worker park the sequence, as if the pool had run dry. FAILED_PRECONDITION says why
  // that is not possible: it is pinned, parked or an orphan, it is about to end, or its worker does
  // not park.
  absl::StatusOr<WorkerId> Park(SequenceId id);

  // Protects a sequence from being asked for its pages, until Unpin. It stays parked if it is, and
  // an order that its worker has heard of stands. RESOURCE_EXHAUSTED: the pool has not as many
  // pages as all pinned sequences, and those whose workers do not park, may need together. So the
  // pinned ones can always be finished.
  absl::StatusOr<WorkerId> Pin(SequenceId id);
  absl::StatusOr<WorkerId> Unpin(SequenceId id);

  // Lowers the budget of each layer to `budget`, rounded up to whole pages, unless it is lower
  // already. The sequence comes down to it with its own steps, beginning when its next page is full
  // (shrinking.h). A sequence that is computed again does so from the end of its prompt on, which
  // is compacted as it was before. A parked sequence and an orphan keep the order.
  // FAILED_PRECONDITION: its policy evicts nothing, its prompt is in prefill, or it is about to
  // end. INVALID_ARGUMENT names the field: no layer has more, or the policy protects more.
  absl::StatusOr<LoweredBudget> LowerBudget(SequenceId id, TokenCount budget);

 private:
  Coordinator& coordinator_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_STEERING_H_
