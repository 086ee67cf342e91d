#include "services/runtime/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "absl/time/clock.h"

namespace folio {
namespace {

TEST(TerminationSignals, AreKeptUntilAskedFor) {
  TerminationSignals signals;
  EXPECT_EQ(signals.Wait(absl::ZeroDuration()), std::nullopt);
  ASSERT_EQ(kill(getpid(), SIGTERM), 0);
  EXPECT_EQ(signals.Wait(), std::optional<int>(SIGTERM));
  ASSERT_EQ(kill(getpid(), SIGINT), 0);
  EXPECT_EQ(signals.Wait(absl::Seconds(5)), std::optional<int>(SIGINT));
  EXPECT_EQ(signals.Wait(absl::ZeroDuration()), std::nullopt);
}

TEST(TerminationSignals, WaitNoLongerThanTold) {
  TerminationSignals signals;
  const absl::Time start = absl::Now();
  EXPECT_EQ(signals.Wait(absl::Milliseconds(30)), std::nullopt);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(29));
}

TEST(TerminationSignals, ABrokenPipeIsNoSignal) {
  TerminationSignals signals;
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

}  // namespace
}  // namespace folio
