#include "services/grpc/grpc_deadline.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace folio {
namespace {

TEST(GrpcDeadline, IsTheSameMomentOnBothSides) {
  for (const absl::Duration away : {absl::Seconds(-5), absl::ZeroDuration(), absl::Hours(100)}) {
    const SteadyTime deadline = SteadyNow() + away;
    const SteadyTime back = SteadyDeadline(GrpcDeadline(deadline));
    // Both directions read two clocks, one after the other.
    EXPECT_LT(absl::AbsDuration(back - deadline), absl::Seconds(1)) << away;
  }
}

TEST(GrpcDeadline, InfiniteMomentsStayInfinite) {
  const gpr_timespec never = GrpcDeadline(SteadyTime::InfiniteFuture());
  EXPECT_EQ(gpr_time_cmp(never, gpr_inf_future(GPR_CLOCK_MONOTONIC)), 0);
  EXPECT_EQ(SteadyDeadline(never), SteadyTime::InfiniteFuture());
  const gpr_timespec at_once = GrpcDeadline(SteadyTime::InfinitePast());
  EXPECT_LT(gpr_time_cmp(at_once, gpr_now(GPR_CLOCK_MONOTONIC)), 0);
}

// As gRPC gives them to servers that ask for a time of day.
TEST(GrpcDeadline, TimesOfDayAreTaken) {
  const gpr_timespec soon =
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(60, GPR_TIMESPAN));
  const absl::Duration left = SteadyDeadline(soon) - SteadyNow();
  EXPECT_GT(left, absl::Seconds(50));
  EXPECT_LE(left, absl::Seconds(60));
}

}  // namespace
}  // namespace folio
