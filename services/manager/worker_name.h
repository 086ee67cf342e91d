// WorkerName is how workers, operators and log lines call a worker: "w1".
#ifndef FOLIO_SERVICES_MANAGER_WORKER_NAME_H_
#define FOLIO_SERVICES_MANAGER_WORKER_NAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/base/ids.h"

namespace folio::manager {

inline std::string WorkerName(WorkerId worker) { return absl::StrCat("w", worker.value()); }

// Nothing if no worker can have that name.
inline std::optional<WorkerId> ParseWorkerName(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, "w") || !absl::SimpleAtoi(name, &number)) return std::nullopt;
  return WorkerId(number);
}

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_WORKER_NAME_H_
