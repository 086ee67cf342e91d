// How many connections may be open: the count, the flag, and the limit of descriptors behind it.
#include "services/runtime/connection_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "services/runtime/connection_flag.h"
#include "services/runtime/descriptor_limit.h"
#include "services/runtime/flags.h"
#include "tests/common/sockets.h"

namespace folio {
namespace {

using ::testing::AllOf;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::IsClosed;
using testing::UnixStream;

TEST(ConnectionLimit, AdmitsUntilAsManyAreOpen) {
  ConnectionLimit limit(2);
  UniqueFd first = UnixStream();
  const UniqueFd second = UnixStream(), third = UnixStream();
  EXPECT_TRUE(limit.Admit(first.get()));
  EXPECT_TRUE(limit.Admit(second.get()));
  EXPECT_FALSE(limit.Admit(third.get()));
  EXPECT_EQ(limit.counts().open, 2U);
  EXPECT_EQ(limit.counts().refused, 1U);
  first.Reset();
  EXPECT_TRUE(Eventually([&] { return limit.Admit(third.get()); }));
  EXPECT_EQ(limit.counts().open, 2U);
}

TEST(ConnectionLimit, AnotherFileAtTheDescriptorIsNotTheConnection) {
  ConnectionLimit limit(8);
  std::vector<int> descriptors;
  {
    std::vector<UniqueFd> connections;
    for (int i = 0; i < 2; ++i) {
      connections.push_back(UnixStream());
      descriptors.push_back(connections.back().get());
      EXPECT_TRUE(limit.Admit(descriptors.back()));
    }
  }
  const UniqueFd file(memfd_create("file", MFD_CLOEXEC)), stranger = UnixStream();
  ASSERT_EQ(file.get(), descriptors[0]);
  ASSERT_EQ(stranger.get(), descriptors[1]);
  EXPECT_EQ(limit.counts().open, 0U);
}

TEST(ConnectionLimit, CountsEachDescriptorOnce) {
  ConnectionLimit limit(2);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limit.Admit(UnixStream().get())) << i;
  EXPECT_EQ(limit.counts().open, 0U);
  EXPECT_EQ(limit.counts().refused, 0U);
}

// Two connected sockets.
struct Pair {
  Pair() {
    int ends[2];
    FOLIO_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    server.Reset(ends[0]);
    client.Reset(ends[1]);
  }
  // As gRPC, which has read everything when somebody looks.
  void Talk() const {
    char byte = 'x';
    ASSERT_EQ(send(client.get(), &byte, 1, 0), 1);
    ASSERT_EQ(recv(server.get(), &byte, 1, 0), 1);
  }
  UniqueFd server, client;
};

// Looks as often as the silence takes. `meanwhile` runs between the looks.
void BeSilent(ConnectionLimit& limit, const std::function<void()>& meanwhile) {
  for (int i = 0; i < 14; ++i) {
    meanwhile();
    absl::SleepFor(limit.period() + absl::Milliseconds(1));
    limit.Look();
  }
}

TEST(ConnectionLimit, TheOneThatIsSilentLongestMakesRoom) {
  ConnectionLimit limit(3, absl::Milliseconds(60));
  const Pair busy, silent, later, next, last;
  ASSERT_TRUE(limit.Admit(busy.server.get()));
  ASSERT_TRUE(limit.Admit(silent.server.get()));
  ASSERT_TRUE(limit.Admit(later.server.get()));
  EXPECT_FALSE(limit.Admit(next.server.get())) << "nobody has been silent";
  int looks = 0;
  BeSilent(limit, [&] {
    busy.Talk();
    if (++looks < 8) later.Talk();
  });
  ASSERT_TRUE(limit.Admit(next.server.get()));
  EXPECT_TRUE(IsClosed(silent.client));
  EXPECT_FALSE(IsClosed(busy.client) || IsClosed(later.client) || IsClosed(next.client));
  EXPECT_FALSE(limit.Admit(last.server.get())) << "the others have not been silent for so long";
  EXPECT_EQ(limit.counts().refused, 2U);
}

TEST(ConnectionLimit, AStandstillOfTheProcessIsNoSilence) {
  ConnectionLimit limit(1, absl::Milliseconds(60));
  const Pair first, second;
  ASSERT_TRUE(limit.Admit(first.server.get()));
  for (int i = 0; i < 3; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    limit.Look();
  }
  EXPECT_FALSE(limit.Admit(second.server.get()));
}

class MaxConnectionsFlag : public ::testing::Test {
 protected:
  ~MaxConnectionsFlag() override { Set("0"); }
  static void Set(const std::string& value) {
    ASSERT_TRUE(ParseFlags({"--max_connections=" + value}).ok());
  }
};

TEST_F(MaxConnectionsFlag, LeavesDescriptorsForOtherThings) {
  EXPECT_EQ(*ReadMaxConnections(1 << 20), kDefaultMaxConnections);
  EXPECT_EQ(*ReadMaxConnections(16384), kDefaultMaxConnections);
  EXPECT_EQ(*ReadMaxConnections(4096), 4096 - 512);
  EXPECT_EQ(*ReadMaxConnections(64), 32);
  Set("10000");
  EXPECT_EQ(*ReadMaxConnections(16384), 10000);
}

TEST_F(MaxConnectionsFlag, SaysWhatIsPossible) {
  Set("-1");
  EXPECT_THAT(std::string(ReadMaxConnections(1024).status().message()),
              HasSubstr("--max_connections=-1: must be 0 or more"));
  Set("600");
  const absl::Status status = ReadMaxConnections(1024).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("at most 512"), HasSubstr("1024 file descriptors"),
                    HasSubstr("LimitNOFILE=")));
}

TEST(DescriptorLimit, IsRaisedToTheHardLimit) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(DescriptorLimit(), 100);
  const auto most = static_cast<int>(std::min<rlim_t>(before.rlim_max, 1 << 20));
  EXPECT_EQ(RaiseDescriptorLimit(), most);
  EXPECT_EQ(DescriptorLimit(), most);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace folio
