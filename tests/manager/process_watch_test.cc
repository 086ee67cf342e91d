// ProcessWatch ends processes that it watches, and no others.
#include "services/manager/process_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"

namespace folio::manager {
namespace {

using ::testing::HasSubstr;

constexpr WorkerProcess kFirst = {WorkerId(1), Rank(0)};

class ProcessWatchTest : public ::testing::Test {
 protected:
  static UniqueFd PidfdOf(pid_t pid) {
    return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  }

  std::atomic<int> ended_ = 0;
  testing::ChildProcess child_{{"/bin/sleep", "60"}};
  ProcessWatch watch_{[this](WorkerProcess) { ++ended_; }};
};

TEST_F(ProcessWatchTest, KillsAProcessThatIsStopped) {
  watch_.Watch(kFirst, {PidfdOf(child_.pid()), /*is_pidfd=*/true});
  child_.Signal(SIGSTOP);
  EXPECT_EQ(watch_.Kill(kFirst), absl::OkStatus());
  EXPECT_EQ(child_.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(testing::Eventually([&] { return ended_ == 1; }));
  EXPECT_TRUE(absl::IsNotFound(watch_.Kill(kFirst)));
}

TEST_F(ProcessWatchTest, DoesNotKillWhatItDoesNotWatch) {
  watch_.Watch(kFirst, {PidfdOf(child_.pid()), /*is_pidfd=*/true});
  EXPECT_TRUE(absl::IsNotFound(watch_.Kill({WorkerId(1), Rank(1)})));
  EXPECT_TRUE(absl::IsNotFound(watch_.Kill({WorkerId(2), Rank(0)})));
  watch_.Unwatch(kFirst.worker);
  EXPECT_TRUE(absl::IsNotFound(watch_.Kill(kFirst)));
  EXPECT_EQ(kill(child_.pid(), 0), 0);
}

TEST_F(ProcessWatchTest, CannotKillWhatItKnowsByItsConnection) {
  std::array<int, 2> ends = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd workers_end(ends[0]);
  watch_.Watch(kFirst, {UniqueFd(ends[1]), /*is_pidfd=*/false});
  const absl::Status refused = watch_.Kill(kFirst);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("does not show the process"));
}

}  // namespace
}  // namespace folio::manager
