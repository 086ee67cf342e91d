// How groups meet, and who is turned away.
#include "services/collective/group.h"

#include <sys/mman.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/collective/shared_segment.h"
#include "services/runtime/unix_socket.h"
#include "tests/common/temp_dir.h"

namespace folio::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GroupTest : public ::testing::Test {
 protected:
  const folio::testing::TempDir directory_;
  const std::string path_ = directory_ / "group";
};

TEST_F(GroupTest, NamesWhoDidNotJoin) {
  auto socket = GroupSocket::Listen(path_, 4);
  ASSERT_TRUE(socket.ok());
  std::thread second([&] {
    const auto joined = JoinGroup(path_, Rank(2), 4, absl::Milliseconds(300));
    EXPECT_FALSE(joined.ok());
  });
  const auto led = socket->AcceptRanks(absl::Milliseconds(150));
  EXPECT_TRUE(absl::IsDeadlineExceeded(led.status()));
  EXPECT_THAT(std::string(led.status().message()), HasSubstr("not joined: 1, 3"));
  second.join();
}

TEST_F(GroupTest, NobodyListens) {
  const auto joined = JoinGroup(path_, Rank(1), 2, absl::Milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(joined.status())) << joined.status();
}

TEST_F(GroupTest, RefusesWhoDoesNotBelong) {
  auto socket = GroupSocket::Listen(path_, 2);
  ASSERT_TRUE(socket.ok());
  std::thread leader([&] { EXPECT_TRUE(socket->AcceptRanks(absl::Seconds(20)).ok()); });
  const auto refusal = [&](Rank rank, uint32_t ranks) {
    return std::string(JoinGroup(path_, rank, ranks, absl::Seconds(5)).status().message());
  };
  EXPECT_THAT(refusal(Rank(1), 3), AllOf(HasSubstr("leader has 2"), HasSubstr("rank 1 has 3")));
  EXPECT_THAT(refusal(Rank(2), 2), HasSubstr("rank: 2 is not from 1 to 1"));
  EXPECT_THAT(refusal(Rank(0), 2), HasSubstr("rank: 0 is not from 1 to 1"));
  auto stranger = ConnectUnix(path_);
  ASSERT_TRUE(stranger.ok());
  ASSERT_TRUE(SendMessage(stranger->get(), "GET / HTTP/1.1").ok());
  const auto answer = ReceiveMessage(stranger->get(), absl::Seconds(5));
  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(answer->text, HasSubstr("tensor-parallel"));
  EXPECT_TRUE(JoinGroup(path_, Rank(1), 2, absl::Seconds(5)).ok());
  leader.join();
}

TEST_F(GroupTest, RefusesATakenRank) {
  auto socket = GroupSocket::Listen(path_, 3);
  ASSERT_TRUE(socket.ok());
  std::thread leader([&] { EXPECT_TRUE(socket->AcceptRanks(absl::Seconds(20)).ok()); });
  std::thread first([&] { EXPECT_TRUE(JoinGroup(path_, Rank(1), 3, absl::Seconds(20)).ok()); });
  // Whoever of the two comes second is told so at once; until the first is there nobody is.
  absl::SleepFor(absl::Milliseconds(100));
  const auto twin = JoinGroup(path_, Rank(1), 3, absl::Seconds(20));
  EXPECT_THAT(std::string(twin.status().message()), HasSubstr("rank: 1 has been taken by process"));
  EXPECT_TRUE(JoinGroup(path_, Rank(2), 3, absl::Seconds(20)).ok());
  first.join();
  leader.join();
}

TEST_F(GroupTest, ARankThatLeftMayComeAgain) {
  auto socket = GroupSocket::Listen(path_, 3);
  ASSERT_TRUE(socket.ok());
  std::thread leader([&] { EXPECT_TRUE(socket->AcceptRanks(absl::Seconds(20)).ok()); });
  EXPECT_FALSE(JoinGroup(path_, Rank(1), 3, absl::Milliseconds(50)).ok());
  absl::SleepFor(absl::Milliseconds(300));
  std::thread again([&] { EXPECT_TRUE(JoinGroup(path_, Rank(1), 3, absl::Seconds(20)).ok()); });
  EXPECT_TRUE(JoinGroup(path_, Rank(2), 3, absl::Seconds(20)).ok());
  again.join();
  leader.join();
}

TEST_F(GroupTest, BadNumbersOfRanks) {
  for (const uint32_t ranks : {0u, 1u, kMaxRanks + 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(GroupSocket::Listen(path_, ranks).status()));
  }
}

TEST(SharedSegment, IsNotMappedFromAnythingElse) {
  const UniqueFd memory(memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(absl::IsFailedPrecondition(SharedSegment::Map(memory.get(), 2).status()));
  auto two = SharedSegment::Create(2, 64);
  ASSERT_TRUE(two.ok());
  EXPECT_TRUE(SharedSegment::Map(two->get(), 2).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(SharedSegment::Map(two->get(), 3).status()));
}

// A group that lives long goes once round the numbers.
TEST(SharedSegment, TurnsCountRoundAndRound) {
  auto memory = SharedSegment::Create(2, 64);
  ASSERT_TRUE(memory.ok());
  auto segment = SharedSegment::Map(memory->get(), 2);
  ASSERT_TRUE(segment.ok());
  segment->Post(Rank(0));
  EXPECT_TRUE(segment->Posted(Rank(0), 1));
  EXPECT_FALSE(segment->Posted(Rank(0), 2));
  EXPECT_TRUE(segment->Posted(Rank(0), (1u << 31) + 1));  // twice the turn is what is kept
  EXPECT_TRUE(segment->Posted(Rank(0), 0xffffffffu));
  segment->End(absl::InternalError("over"));
  EXPECT_TRUE(segment->Posted(Rank(0), 1));
  EXPECT_FALSE(segment->Posted(Rank(0), 2));
  EXPECT_EQ(segment->ended(), absl::InternalError("over"));
}

}  // namespace
}  // namespace folio::collective
