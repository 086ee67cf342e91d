// The watchdog of the step loop, at times that the test chooses.
#include "services/worker/step_watchdog.h"

#include <gtest/gtest.h>

#include <optional>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace folio::worker {
namespace {

using State = StepWatchdog::State;

constexpr absl::Duration kTimeout = absl::Seconds(10);

class StepWatchdogTest : public ::testing::Test {
 protected:
  StepWatchdogTest() { gauge_.BeginLoop(); }

  // What the watchdog says after it has looked at its own interval for so long.
  State After(absl::Duration time) {
    State state = State::kProgressing;
    for (; time > absl::ZeroDuration(); time -= watchdog_.interval()) {
      state = LookAfter(watchdog_.interval());
    }
    return state;
  }
  // What it says if the next look comes so late.
  State LookAfter(absl::Duration time) {
    now_ += absl::ToChronoNanoseconds(time);
    return watchdog_.Look(now_);
  }

  StepGauge gauge_;
  StepWatchdog watchdog_{{kTimeout}, &gauge_};
  StepWatchdog::Time now_;
};

TEST_F(StepWatchdogTest, ALoopThatStandsIsLateAfterHalfTheTimeoutAndHangsAfterAll) {
  LookAfter(absl::Seconds(1));
  gauge_.OnTurn();
  gauge_.OnEnqueue(64);
  LookAfter(absl::Seconds(1));
  EXPECT_EQ(After(kTimeout / 2 - watchdog_.interval()), State::kProgressing);
  EXPECT_TRUE(watchdog_.progressing());
  EXPECT_EQ(After(watchdog_.interval()), State::kLate);
  EXPECT_FALSE(watchdog_.progressing());
  EXPECT_EQ(After(kTimeout / 2 - watchdog_.interval()), State::kLate);
  EXPECT_EQ(After(watchdog_.interval()), State::kHangs);
}

TEST_F(StepWatchdogTest, AStepThatEndsAfterAllMakesItHealthyAgain) {
  LookAfter(absl::Seconds(1));
  EXPECT_EQ(After(kTimeout * 0.9), State::kLate);
  gauge_.OnTurn();
  EXPECT_EQ(After(watchdog_.interval()), State::kProgressing);
  EXPECT_TRUE(watchdog_.progressing());
  EXPECT_EQ(After(kTimeout * 0.4), State::kProgressing);
}

TEST_F(StepWatchdogTest, StepsOfNearlyTheTimeoutDoNotAddUp) {
  for (int step = 0; step < 20; ++step) {
    gauge_.OnTurn();
    EXPECT_NE(After(kTimeout * 0.9), State::kHangs) << step;
  }
}

TEST_F(StepWatchdogTest, TimeInWhichTheWholeProcessStoodStillDoesNotCount) {
  LookAfter(absl::Seconds(1));
  EXPECT_EQ(LookAfter(absl::Hours(1)), State::kProgressing);
  EXPECT_EQ(LookAfter(absl::Hours(1)), State::kProgressing);
  EXPECT_EQ(After(kTimeout), State::kHangs);
}

TEST_F(StepWatchdogTest, WithoutALoopNothingIsLate) {
  gauge_.EndLoop();
  EXPECT_EQ(After(3 * kTimeout), State::kProgressing);
  gauge_.BeginLoop();
  EXPECT_EQ(After(kTimeout * 0.4), State::kProgressing);
  EXPECT_EQ(After(kTimeout), State::kHangs);
}

TEST(StepWatchdogThread, EndsTheProcessOnce) {
  StepGauge gauge;
  gauge.BeginLoop();
  absl::Notification ended;  // which may be notified once
  StepWatchdog watchdog({absl::Milliseconds(200)}, &gauge, [&ended] { ended.Notify(); });
  watchdog.Start();
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_FALSE(watchdog.progressing());
}

TEST(StepWatchdogThread, WatchesNothingWithoutATimeout) {
  StepGauge gauge;
  gauge.BeginLoop();
  absl::Notification ended;
  StepWatchdog watchdog({absl::ZeroDuration()}, &gauge, [&ended] { ended.Notify(); });
  watchdog.Start();
  EXPECT_FALSE(ended.WaitForNotificationWithTimeout(absl::Seconds(1)));
  EXPECT_TRUE(watchdog.progressing());
}

class StepTimeoutTest : public StepWatchdogTest {
 protected:
  // A step of so many rows that takes at least so long.
  void Run(uint32_t rows, absl::Duration time) {
    gauge_.OnEnqueue(rows);
    absl::SleepFor(time);
    gauge_.OnCollected();
    gauge_.OnTurn();
  }

  const StepTimeout timeout_ = {absl::Milliseconds(10), absl::Minutes(10)};
};

TEST_F(StepTimeoutTest, TheFirstStepMayTakeTheMost) {
  EXPECT_EQ(timeout_.Now(gauge_), timeout_.least);  // nothing to compute
  gauge_.OnEnqueue(512);
  EXPECT_EQ(timeout_.Now(gauge_), timeout_.most);
  gauge_.OnCollected();
  EXPECT_LT(timeout_.Now(gauge_), absl::Minutes(1));
}

TEST_F(StepTimeoutTest, LaterStepsMayTakeFiveTimesTheLongest) {
  Run(64, absl::Milliseconds(100));
  for (int step = 0; step < 5; ++step) Run(1, absl::ZeroDuration());
  const absl::Duration longest = gauge_.record().longest;
  EXPECT_GE(longest, absl::Milliseconds(100));
  EXPECT_EQ(timeout_.Now(gauge_), 5 * longest);  // also between two steps
  gauge_.OnEnqueue(64);
  EXPECT_EQ(timeout_.Now(gauge_), 5 * longest);
  EXPECT_EQ((StepTimeout{absl::Hours(1), absl::Hours(2)}).Now(gauge_), absl::Hours(1));
  EXPECT_EQ((StepTimeout{absl::Milliseconds(1), absl::Milliseconds(2)}).Now(gauge_),
            absl::Milliseconds(2));
  EXPECT_EQ(StepTimeout{absl::Milliseconds(10)}.Now(gauge_), absl::Milliseconds(10));
}

TEST_F(StepTimeoutTest, ALargerStepMayTakeLongerInProportion) {
  Run(16, absl::Milliseconds(50));
  gauge_.OnEnqueue(512);
  EXPECT_EQ(timeout_.Now(gauge_), 32 * 5 * gauge_.record().longest);
}

TEST_F(StepTimeoutTest, TheWatchdogGoesByIt) {
  StepWatchdog watchdog({kTimeout, 10 * kTimeout}, &gauge_);
  const auto after = [&](absl::Duration time) {
    State state = State::kProgressing;
    for (; time > absl::ZeroDuration(); time -= watchdog.interval()) {
      now_ += absl::ToChronoNanoseconds(watchdog.interval());
      state = watchdog.Look(now_);
    }
    return state;
  };
  gauge_.OnEnqueue(512);
  EXPECT_EQ(after(4 * kTimeout), State::kProgressing);
  EXPECT_EQ(after(2 * kTimeout), State::kLate);
  EXPECT_EQ(after(5 * kTimeout), State::kHangs);
  gauge_.OnCollected();
  gauge_.OnTurn();
  EXPECT_EQ(after(watchdog.interval()), State::kProgressing);
  gauge_.OnEnqueue(512);
  EXPECT_EQ(after(kTimeout * 0.6), State::kLate);
  EXPECT_EQ(after(kTimeout * 0.5), State::kHangs);
}

TEST(StepGauge, TellsTheOldestStepInFlight) {
  StepGauge gauge;
  EXPECT_FALSE(gauge.in_flight().has_value());
  EXPECT_EQ(gauge.progress(), StepProgress());
  gauge.OnEnqueue(64);
  absl::SleepFor(absl::Milliseconds(20));
  gauge.OnEnqueue(3);
  const std::optional<StepInFlight> first = gauge.in_flight();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->number, 1U);
  EXPECT_EQ(first->rows, 64U);
  EXPECT_GE(first->age, absl::Milliseconds(20));
  EXPECT_EQ(gauge.progress().steps_done, 0U);
  EXPECT_GE(gauge.progress().in_flight_ms, 20U);
  gauge.OnCollected();
  ASSERT_TRUE(gauge.in_flight().has_value());
  EXPECT_EQ(gauge.in_flight()->number, 2U);
  EXPECT_EQ(gauge.in_flight()->rows, 3U);
  gauge.OnCollected();
  EXPECT_EQ(gauge.progress(), (StepProgress{2, 0}));
}

}  // namespace
}  // namespace folio::worker
