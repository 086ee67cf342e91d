// Accepting connections, with and without descriptors and room.
#include "services/runtime/socket_acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "services/runtime/unix_socket.h"
#include "tests/common/sockets.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using testing::ConnectTo;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::IsClosed;
using testing::NoFreeDescriptor;
using testing::UnixStream;

class SocketAcceptorTest : public ::testing::Test {
 protected:
  void Start(int sockets, int most) {
    limit_ = std::make_unique<ConnectionLimit>(most);
    std::vector<int> descriptors;
    for (int i = 0; i < sockets; ++i) {
      auto listening = ListenUnix(Path(i), 0600, SOCK_STREAM | SOCK_NONBLOCK);
      ASSERT_TRUE(listening.ok()) << listening.status();
      descriptors.push_back(listening->get());
      listening_.push_back(*std::move(listening));
    }
    acceptor_ = std::make_unique<SocketAcceptor>(
        descriptors,
        [this](UniqueFd connection) {
          absl::MutexLock lock(&mutex_);
          accepted_.push_back(std::move(connection));
        },
        limit_.get());
  }
  std::string Path(int index) const { return directory_ / absl::StrCat("s", index); }
  size_t accepted() {
    absl::MutexLock lock(&mutex_);
    return accepted_.size();
  }
  void CloseAccepted() {
    absl::MutexLock lock(&mutex_);
    accepted_.clear();
  }

  const testing::TempDir directory_;
  std::vector<UniqueFd> listening_;
  std::unique_ptr<ConnectionLimit> limit_;
  absl::Mutex mutex_;
  std::vector<UniqueFd> accepted_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SocketAcceptor> acceptor_;
};

TEST_F(SocketAcceptorTest, AcceptsFromEverySocket) {
  Start(3, 100);
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 9; ++i) {
    clients.push_back(UnixStream());
    ASSERT_TRUE(ConnectTo(clients.back(), Path(i % 3)));
  }
  EXPECT_TRUE(Eventually([&] { return accepted() == 9; })) << accepted();
  EXPECT_EQ(limit_->counts().open, 9U);
}

TEST_F(SocketAcceptorTest, AcceptsAgainWhenThereAreDescriptors) {
  Start(1, 100);
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(UnixStream());
  ::testing::internal::CaptureStderr();
  {
    const NoFreeDescriptor none;
    for (const UniqueFd& client : clients) ASSERT_TRUE(ConnectTo(client, Path(0)));
    EXPECT_TRUE(Eventually([&] { return limit_->counts().accept_failures >= 4; }));
    EXPECT_EQ(accepted(), 0U);
  }
  EXPECT_TRUE(Eventually([&] { return accepted() == 3; })) << accepted();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string line = "cannot accept connections, so callers wait";
  ASSERT_THAT(log, HasSubstr(line));
  EXPECT_THAT(log, HasSubstr("Too many open files"));
  EXPECT_EQ(log.find(line, log.find(line) + 1), std::string::npos) << log;
}

TEST_F(SocketAcceptorTest, EndsWhileThereAreNoDescriptors) {
  Start(1, 100);
  const UniqueFd client = UnixStream();
  const NoFreeDescriptor none;
  ASSERT_TRUE(ConnectTo(client, Path(0)));
  EXPECT_TRUE(Eventually([&] { return limit_->counts().accept_failures > 0; }));
  acceptor_.reset();
  EXPECT_EQ(accepted(), 0U);
}

TEST_F(SocketAcceptorTest, ClosesConnectionsAboveTheLimit) {
  Start(1, 2);
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(UnixStream());
    ASSERT_TRUE(ConnectTo(clients.back(), Path(0)));
  }
  for (int i = 2; i < 5; ++i) EXPECT_TRUE(Eventually([&] { return IsClosed(clients[i]); })) << i;
  EXPECT_EQ(accepted(), 2U);
  EXPECT_EQ(limit_->counts().refused, 3U);
  CloseAccepted();
  // The next look at the open connections may be some milliseconds away.
  EXPECT_TRUE(Eventually([&] {
    clients.push_back(UnixStream());
    return ConnectTo(clients.back(), Path(0)) && accepted() > 0;
  }));
}

}  // namespace
}  // namespace folio
