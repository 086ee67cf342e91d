// GrpcDeadline and SteadyDeadline are the one place that turns steady deadlines into gRPC's and
// back. gRPC also takes times of day, and converts them once, when a call starts.
#ifndef FOLIO_SERVICES_GRPC_GRPC_DEADLINE_H_
#define FOLIO_SERVICES_GRPC_GRPC_DEADLINE_H_

#include <grpc/support/time.h>

#include "services/base/steady_time.h"

namespace folio {

// For grpc::ClientContext::set_deadline and grpc::Server::Shutdown.
gpr_timespec GrpcDeadline(SteadyTime deadline);

// From grpc::ServerContext::raw_deadline. A call without a deadline has one in the infinite future.
SteadyTime SteadyDeadline(gpr_timespec deadline);

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_GRPC_DEADLINE_H_
