// ToGrpcStatus and FromGrpcStatus are the one place that turns absl::Status into grpc::Status and
// back. Both number their codes alike.
#ifndef FOLIO_SERVICES_GRPC_GRPC_STATUS_H_
#define FOLIO_SERVICES_GRPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace folio {

// Payloads are dropped. A code outside the canonical ones becomes UNKNOWN.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_GRPC_STATUS_H_
