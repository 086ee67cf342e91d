// LogHeldMatrices says how quantised matrices are held in memory, and why some are not as they are
// stored.
#ifndef FOLIO_SERVICES_WORKER_HELD_MATRICES_H_
#define FOLIO_SERVICES_WORKER_HELD_MATRICES_H_

#include "services/worker/device/loaded_model.h"

namespace folio::worker {

void LogHeldMatrices(const LoadedModel& model);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_HELD_MATRICES_H_
