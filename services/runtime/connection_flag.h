// This header reads the flag --max_connections, which both daemons have.
#ifndef FOLIO_SERVICES_RUNTIME_CONNECTION_FLAG_H_
#define FOLIO_SERVICES_RUNTIME_CONNECTION_FLAG_H_

#include "absl/status/statusor.h"

namespace folio {

// The default, if the limit of descriptors allows it. A connection that is open and does nothing
// takes 20 KB of gRPC's memory, so these take 160 MB.
inline constexpr int kDefaultMaxConnections = 8192;

// Returns how many connections of clients may be open in a process that may have `descriptors` file
// descriptors. Up to half of them, and at most 512, are kept for files, workers, metrics and health
// checks. INVALID_ARGUMENT names the flag and the fix.
absl::StatusOr<int> ReadMaxConnections(int descriptors);

}  // namespace folio

#endif  // FOLIO_SERVICES_RUNTIME_CONNECTION_FLAG_H_
