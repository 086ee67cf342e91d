// The conformance suite: how a group fails, on all ranks and in time.
#include <time.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "services/base/steady_time.h"
#include "tests/collective/conformance.h"

namespace folio::collective::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CollectiveFailureTest : public CollectiveTest {
 protected:
  static uint32_t last() { return ranks() - 1; }
};

absl::Status Sum(Collective& group, SteadyTime deadline) {
  std::vector<float> values(1000, 1.0f);
  return group.AllReduce(absl::MakeSpan(values), deadline);
}

// The status, and whether it took long.
std::string Told(const absl::Status& status, SteadyTime start) {
  const bool late = SteadyNow() - start > absl::Seconds(2);
  return absl::StrCat(status.ToString(), late ? " late" : "");
}

TEST_P(CollectiveFailureTest, ARankThatDoesNotComeIsNamed) {
  const std::vector<std::string> said = Run([](Collective& group) {
    const SteadyTime start = SteadyNow();
    if (group.rank().value() == last()) absl::SleepFor(absl::Milliseconds(400));
    const absl::Status first = Sum(group, start + absl::Milliseconds(100));
    // The group stays as it is.
    const absl::Status again = Sum(group, SteadyTime::InfiniteFuture());
    return first == again ? Told(first, start) : "changed its mind";
  });
  for (const std::string& words : said) {
    EXPECT_THAT(words,
                AllOf(StartsWith("DEADLINE_EXCEEDED"), HasSubstr(absl::StrCat("rank ", last())),
                      ::testing::Not(HasSubstr("late"))));
  }
}

TEST_P(CollectiveFailureTest, ADeadRankIsNamedByAll) {
  for (const uint32_t victim : {0u, last()}) {
    const std::vector<std::string> said = Run([victim](Collective& group) {
      if (absl::Status status = Sum(group, SteadyTime::InfiniteFuture()); !status.ok()) {
        return status.ToString();
      }
      if (group.rank().value() == victim) return Die(kind());
      return Told(Sum(group, SteadyTime::InfiniteFuture()), SteadyNow());
    });
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      if (rank == victim) {
        EXPECT_EQ(said[rank], kKilled);
      } else {
        EXPECT_THAT(said[rank], AllOf(StartsWith("UNAVAILABLE"),
                                      HasSubstr(absl::StrCat("rank ", victim, " (process ")),
                                      HasSubstr("has gone"), ::testing::Not(HasSubstr("late"))));
      }
    }
  }
}

// To who is in no call: a rank that has died, and later that somebody ended the group.
TEST_P(CollectiveFailureTest, HealthShowsWhoHasGone) {
  const std::vector<std::string> said = Run([](Collective& group) -> std::string {
    if (!group.Health().ok()) return group.Health().ToString();
    if (absl::Status status = Sum(group, SteadyTime::InfiniteFuture()); !status.ok()) {
      return status.ToString();
    }
    if (group.rank().value() == last()) return Die(kind());
    // Only the leader is connected to all others.
    if (!group.leads()) return Told(Sum(group, SteadyTime::InfiniteFuture()), SteadyNow());
    const SteadyTime start = SteadyNow();
    while (group.Health().ok() && SteadyNow() - start < absl::Seconds(5)) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    const absl::Status gone = group.Health();
    group.Abort(absl::DataLossError("enough"));
    return group.Health() == absl::DataLossError("enough") ? Told(gone, start) : "not the reason";
  });
  EXPECT_THAT(said[0], AllOf(StartsWith("UNAVAILABLE"), HasSubstr(absl::StrCat("rank ", last())),
                             ::testing::Not(HasSubstr("late"))));
  for (uint32_t rank = 1; rank < last(); ++rank) {
    EXPECT_THAT(said[rank], ::testing::AnyOf(StartsWith("DATA_LOSS: enough"),
                                             StartsWith("UNAVAILABLE: rank ")));
  }
}

// Also where only the leader is waited for.
TEST_P(CollectiveFailureTest, ADeadLeaderIsMissedByThoseWhoListen) {
  const std::vector<std::string> said = Run([](Collective& group) {
    if (group.leads()) return Die(kind());
    std::string bytes;
    return Told(group.Broadcast(bytes, SteadyTime::InfiniteFuture()), SteadyNow());
  });
  for (uint32_t rank = 1; rank < ranks(); ++rank) {
    EXPECT_THAT(said[rank], AllOf(StartsWith("UNAVAILABLE"), HasSubstr("rank 0 ")));
  }
}

TEST_P(CollectiveFailureTest, AbortReachesThoseWhoWaitAndThoseToCome) {
  const std::vector<std::string> said = Run([](Collective& group) {
    if (group.rank().value() == last()) {
      absl::SleepFor(absl::Milliseconds(100));
      group.Abort(absl::DataLossError("the tables differ"));
      group.Abort(absl::InternalError("a later reason"));
    }
    const SteadyTime start = SteadyNow();
    return Told(Sum(group, SteadyTime::InfiniteFuture()), start);
  });
  for (const std::string& words : said) EXPECT_EQ(words, "DATA_LOSS: the tables differ");
}

// As long as it must be, and no longer: 8 KB into the memory of 500 bytes.
TEST_P(CollectiveFailureTest, LongReasonsAreCut) {
  const std::vector<std::string> said = Run([](Collective& group) {
    if (group.leads()) group.Abort(absl::InternalError(std::string(8192, 'x')));
    return Told(Sum(group, SteadyTime::InfiniteFuture()), SteadyNow());
  });
  for (const std::string& words : said) {
    EXPECT_THAT(words, StartsWith("INTERNAL: xxxx"));
    EXPECT_LT(words.size(), 600u);
  }
}

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST_P(CollectiveFailureTest, WaitingCostsNoCpu) {
  ExpectGood(Run([](Collective& group) -> std::string {
    std::string bytes = "go";
    const double before = CpuSeconds();
    if (group.leads()) absl::SleepFor(absl::Milliseconds(500));
    const absl::Status status = group.Broadcast(bytes, SteadyTime::InfiniteFuture());
    const double spent = CpuSeconds() - before;
    if (!status.ok()) return status.ToString();
    return spent < 0.05 ? "" : absl::StrCat("spent ", spent, " s");
  }));
}

FOLIO_INSTANTIATE_COLLECTIVE_TEST(CollectiveFailureTest);

}  // namespace
}  // namespace folio::collective::testing
