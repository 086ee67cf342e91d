#include "services/cache/sequence_orders.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "services/base/check.h"
#include "services/cache/budgets.h"

namespace folio::cache {

void SequenceOrders::LowerBudget(policy::CacheConfig cache) {
  SequenceRecord& record = sequence_.record_;
  FOLIO_CHECK(!record.deciding);
  sequence_.Settle();
  std::vector<uint64_t> held = Budgets(record).FullTokens();
  record.cache = std::move(cache);
  const bool shrinks = !record.in_prompt() && Budgets(record).over();
  record.shrinking = shrinks ? Shrinking(std::move(held), record.plan_in_flight()) : Shrinking();
  sequence_.ResizeToPromise();
  sequence_.TellAll();
}

}  // namespace folio::cache
