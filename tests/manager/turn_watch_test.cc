// Health means that leases are checked, and not only that gRPC answers.
#include "services/manager/turn_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "tests/manager/manager_harness.h"
#include "tests/manager/raw_grpc.h"

namespace folio::manager {
namespace {

using testing::Eventually;

TEST(TurnWatch, ReportsAStandstillAndItsEndOnce) {
  std::atomic<int> stops = 0, goes = 0;
  TurnWatch watch(absl::Milliseconds(100), [&](bool continues) { ++(continues ? goes : stops); });
  watch.Start();
  for (int round = 1; round <= 2; ++round) {
    ASSERT_TRUE(Eventually([&] { return stops == round; }));
    absl::SleepFor(absl::Milliseconds(150));
    EXPECT_EQ(stops, round);
    ASSERT_TRUE(Eventually([&] {
      watch.OnTurn();
      return goes == round;
    }));
  }
  watch.Stop();
  watch.Stop();
  const int before = stops;
  absl::SleepFor(absl::Milliseconds(150));
  EXPECT_EQ(stops, before);
}

TEST(TurnWatch, IsQuietWhileThereAreTurns) {
  std::atomic<int> reports = 0;
  TurnWatch watch(absl::Seconds(2), [&](bool) { ++reports; });
  watch.Start();
  for (int turn = 0; turn < 60; ++turn) {
    watch.OnTurn();
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_EQ(reports, 0);
}

// A clock that keeps those who ask it for the time while it is held, with the locks that they have.
class HeldClock final : public Clock {
 public:
  SteadyTime Now() const override {
    const absl::MutexLock lock(&mu_);
    return SteadyNow();
  }
  absl::Mutex* mutex() { return &mu_; }

 private:
  mutable absl::Mutex mu_;
};

TEST(ManagerHealth, IsNotServingWhileTheRegistryIsStuck) {
  HeldClock clock;
  testing::ManagerHarness harness({.lease_ttl = absl::Seconds(1), .clock = &clock});
  testing::TestWorker worker(harness.address());
  worker.Join();
  const auto health = [&] { return *testing::Health(harness.address()); };
  EXPECT_EQ(health(), "SERVING");
  {
    const absl::MutexLock lock(clock.mutex());
    EXPECT_TRUE(Eventually([&] { return health() == "NOT_SERVING"; }));
    EXPECT_EQ(*testing::Health(harness.address(), "folio.v1.KvManager"), "NOT_SERVING");
    EXPECT_EQ(*testing::Health(harness.address(), "liveness"), "SERVING");
  }
  EXPECT_TRUE(Eventually([&] { return health() == "SERVING"; }));

  // A manager that drains is not healthy again afterwards.
  {
    const absl::MutexLock lock(clock.mutex());
    EXPECT_TRUE(Eventually([&] { return health() == "NOT_SERVING"; }));
  }
  harness.server().Drain(absl::ZeroDuration(), [](absl::Duration) { return true; });
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_EQ(health(), "NOT_SERVING");
}

}  // namespace
}  // namespace folio::manager
