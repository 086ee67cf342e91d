// WriteAccessLine writes the line of a request into the log, at level info.
#ifndef FOLIO_SERVICES_WORKER_ACCESS_LOG_H_
#define FOLIO_SERVICES_WORKER_ACCESS_LOG_H_

#include "services/worker/rpc/access_entry.h"

namespace folio::worker {

// Any thread. Like every line it waits for no reader of the log.
void WriteAccessLine(const AccessRecord& record);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ACCESS_LOG_H_
