// SequenceOrders writes an operator's orders into the record of a sequence. It moves no pages, but
// a sequence with a lower budget is promised fewer.
//
// Thread-compatible, guarded by the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_SEQUENCE_ORDERS_H_
#define FOLIO_SERVICES_CACHE_SEQUENCE_ORDERS_H_

#include <string>
#include <utility>

#include "services/cache/sequence.h"

namespace folio::cache {

class SequenceOrders {
 public:
  // Borrows the sequence.
  explicit SequenceOrders(Sequence& sequence)
      : sequence_(sequence), orders_(sequence.record_.orders) {}

  void Close(std::string why) {
    orders_.close = std::move(why);
    sequence_.TellAll();
  }
  void Park() { orders_.park = true; }
  // An order to park of which the worker has not heard is void.
  void Pin() {
    orders_.pinned = true;
    orders_.park = false;
    if (sequence_.record_.asked_back && !sequence_.record_.told) sequence_.LeaveAlone();
    sequence_.TellAll();
  }
  void Unpin() {
    orders_.pinned = false;
    sequence_.TellAll();
  }
  // `cache` has its own settings with lower budgets. Precondition: no policy is deciding on it.
  void LowerBudget(policy::CacheConfig cache);
  // The worker has heard of the orders.
  void NoteTold() {
    orders_.park = false;
    orders_.told_to_close = orders_.close.has_value();
  }

 private:
  Sequence& sequence_;
  Orders& orders_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_SEQUENCE_ORDERS_H_
