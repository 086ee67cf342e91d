// ToGrpcStatus and FromGrpcStatus are the one place that turns absl::Status into grpc::Status and
// back. Both number their codes alike. EndCall ends a call with a status.
#ifndef FOLIO_SERVICES_GRPC_GRPC_STATUS_H_
#define FOLIO_SERVICES_GRPC_GRPC_STATUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace folio {

// Payloads are dropped. A code outside the canonical ones becomes UNKNOWN.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// Ends a call of a synchronous service from another thread: its reads and writes fail, and the
// client gets `why`, which is not OK. ServerContext::TryCancel does the same and always says
// CANCELLED. The call's method must not have returned.
void EndCall(grpc::ServerContext* context, const absl::Status& why);

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_GRPC_STATUS_H_
