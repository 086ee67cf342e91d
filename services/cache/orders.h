// Orders is what an operator has ordered for a sequence. services/cache/steering.h gives them.
//
// Plain data, guarded by the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_ORDERS_H_
#define FOLIO_SERVICES_CACHE_ORDERS_H_

#include <optional>
#include <string>

namespace folio::cache {

struct Orders {
  bool pinned = false;               // it is not asked for its pages
  bool park = false;                 // its worker is yet to be asked for them
  std::optional<std::string> close;  // the sequence is to end, and why
  bool told_to_close = false;        // its worker has heard of it
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_ORDERS_H_
