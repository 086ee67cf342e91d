// These types are what a worker gets from the registry. Each keeps its pool alive.
#ifndef FOLIO_SERVICES_MANAGER_GRANTS_H_
#define FOLIO_SERVICES_MANAGER_GRANTS_H_

#include <memory>

#include "services/base/ids.h"
#include "services/base/unique_fd.h"
#include "services/manager/pool.h"

namespace folio::manager {

// For an export token, the memory of this rank.
struct ExportGrant {
  std::shared_ptr<const Pool> pool;
  // Duplicates, because other memory may take the place of the pool's.
  UniqueFd pages;
  UniqueFd score_board;
  UniqueFd swap;  // invalid without swap memory, and for a worker that does not map it
};

// For the hello of a session, whose it is and in which pool.
struct BegunSession {
  WorkerId worker;
  std::shared_ptr<const Pool> pool;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_GRANTS_H_
