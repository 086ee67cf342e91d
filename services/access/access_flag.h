// OpenAccess opens the file that the flag --access names. Manager and worker have the flag.
#ifndef FOLIO_SERVICES_ACCESS_ACCESS_FLAG_H_
#define FOLIO_SERVICES_ACCESS_ACCESS_FLAG_H_

#include <memory>

#include "absl/status/statusor.h"
#include "services/access/access_list.h"

namespace folio::access {

// Null without the flag. The errors are those of AccessList::Open, and begin with the flag.
absl::StatusOr<std::shared_ptr<AccessList>> OpenAccess();

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_ACCESS_FLAG_H_
