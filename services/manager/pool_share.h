// PoolShare is a pool that a manager is to have: its name, and its part of the manager's memory.
#ifndef FOLIO_SERVICES_MANAGER_POOL_SHARE_H_
#define FOLIO_SERVICES_MANAGER_POOL_SHARE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "services/manager/memory/pool_size.h"

namespace folio::manager {

// The pool of a manager that was told of none. Its journal lies where those of older managers do.
inline constexpr char kDefaultPool[] = "default";
inline constexpr size_t kMaxPoolNameBytes = 32;

struct PoolShare {
  std::string name = kDefaultPool;
  double part = 1;  // in (0, 1], of the pages' memory and of the swap memory

  uint64_t Of(uint64_t bytes) const {
    return static_cast<uint64_t>(static_cast<double>(bytes) * part);
  }
  PoolSize Of(const PoolSize& all) const {
    if (all.is_share()) return {.share = all.share * part};
    return {.bytes = std::max<uint64_t>(Of(all.bytes), 1)};
  }
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_SHARE_H_
