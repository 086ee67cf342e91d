#include "services/grpc/grpc_deadline.h"

#include "absl/time/time.h"

namespace folio {

// Both go by the time that is left, so that they do not depend on the zero of gRPC's clock. gRPC
// takes the largest and the smallest number of nanoseconds for infinite times.
gpr_timespec GrpcDeadline(SteadyTime deadline) {
  const gpr_timespec left =
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(deadline - SteadyNow()), GPR_TIMESPAN);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), left);
}

SteadyTime SteadyDeadline(gpr_timespec deadline) {
  const gpr_timespec infinite = gpr_inf_future(deadline.clock_type);
  if (gpr_time_cmp(deadline, infinite) == 0) return SteadyTime::InfiniteFuture();
  // Read first, so that the result is never later than the deadline.
  const SteadyTime now = SteadyNow();
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return now + absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace folio
