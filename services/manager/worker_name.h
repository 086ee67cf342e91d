// WorkerName is how workers, operators and log lines call a worker: "w1".
#ifndef FOLIO_SERVICES_MANAGER_WORKER_NAME_H_
#define FOLIO_SERVICES_MANAGER_WORKER_NAME_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "services/base/ids.h"

namespace folio::manager {

inline std::string WorkerName(WorkerId worker) { return absl::StrCat("w", worker.value()); }

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_WORKER_NAME_H_
