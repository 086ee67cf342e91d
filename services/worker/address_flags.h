// ReadAddressFlags reads the flags that say where a worker listens and where its manager is.
#ifndef FOLIO_SERVICES_WORKER_ADDRESS_FLAGS_H_
#define FOLIO_SERVICES_WORKER_ADDRESS_FLAGS_H_

#include "absl/status/status.h"
#include "services/worker/flags.h"

namespace folio::worker {

// INVALID_ARGUMENT names the flag and the fix: an address that is none, that two flags name, or
// that other machines reach without encryption.
absl::Status ReadAddressFlags(WorkerFlags* flags);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ADDRESS_FLAGS_H_
