#include "services/runtime/unix_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "services/runtime/pool_socket.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using ::testing::HasSubstr;

std::pair<UniqueFd, UniqueFd> SocketPair() {
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

ino_t Inode(int fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return info.st_ino;
}

TEST(SendMessage, PassesTextAndDescriptorsOfTheSameFiles) {
  auto [a, b] = SocketPair();
  const UniqueFd first(memfd_create("first", MFD_CLOEXEC));
  const UniqueFd second(memfd_create("second", MFD_CLOEXEC));
  const std::array<int, 2> sent = {first.get(), second.get()};
  ASSERT_TRUE(SendMessage(a.get(), "hello", sent).ok());
  auto got = ReceiveMessage(b.get(), absl::Seconds(5));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->text, "hello");
  ASSERT_EQ(got->fds.size(), 2U);
  EXPECT_EQ(Inode(got->fds[0].get()), Inode(first.get()));
  EXPECT_EQ(Inode(got->fds[1].get()), Inode(second.get()));
  EXPECT_EQ(fcntl(got->fds[0].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(SendMessage, ToAClosedPeerIsAnErrorAndNoSignal) {
  auto [a, b] = SocketPair();
  b.Reset();
  EXPECT_EQ(SendMessage(a.get(), "x").code(), absl::StatusCode::kUnavailable);
}

TEST(ReceiveMessage, OfAClosedPeerIsEmpty) {
  auto [a, b] = SocketPair();
  a.Reset();
  auto got = ReceiveMessage(b.get(), absl::Seconds(5));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(got->text.empty());
  EXPECT_TRUE(got->fds.empty());
}

TEST(ReceiveMessage, GivesUpInTime) {
  auto [a, b] = SocketPair();
  EXPECT_EQ(ReceiveMessage(b.get(), absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ReceiveMessage, RefusesWhatIsTooLongAndClosesItsDescriptors) {
  auto [a, b] = SocketPair();
  ASSERT_TRUE(SendMessage(a.get(), std::string(100, 'x')).ok());
  EXPECT_EQ(ReceiveMessage(b.get(), absl::Seconds(5), 99).status().code(),
            absl::StatusCode::kInvalidArgument);

  std::array<int, 2> pipe_ends = {-1, -1};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const UniqueFd read_end(pipe_ends[0]);
  UniqueFd write_end(pipe_ends[1]);
  const std::array<int, 1> sent = {write_end.get()};
  ASSERT_TRUE(SendMessage(a.get(), "fd", sent).ok());
  write_end.Reset();
  EXPECT_EQ(ReceiveMessage(b.get(), absl::Seconds(5), 99, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  // Were the duplicate still open, this would wait for ever.
  char byte = 0;
  EXPECT_EQ(read(read_end.get(), &byte, 1), 0);
}

TEST(PeerCredentials, AreOurOwnInOneProcess) {
  auto [a, b] = SocketPair();
  auto peer = GetPeerCredentials(a.get());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_EQ(peer->uid, geteuid());
}

TEST(ListenUnix, ReplacesAStaleSocketAndRefusesALiveOne) {
  const testing::TempDir dir;
  const std::string path = dir / "s";
  auto first = ListenUnix(path);
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = ListenUnix(path);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process listens"));
  first->Reset();  // the file stays, nobody listens
  auto third = ListenUnix(path);
  EXPECT_TRUE(third.ok()) << third.status();
  EXPECT_TRUE(ConnectUnix(path).ok());
}

TEST(ListenUnix, NeverRemovesAFileThatIsNoSocket) {
  const testing::TempDir dir;
  const std::string path = dir / "data";
  std::ofstream(path) << "precious";
  auto listening = ListenUnix(path);
  EXPECT_EQ(listening.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(listening.status().message()), HasSubstr("is not a socket"));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(ListenUnix, NamesAPathThatIsTooLong) {
  auto listening = ListenUnix("/" + std::string(200, 'p'));
  EXPECT_EQ(listening.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(listening.status().message()), HasSubstr("1 to 107"));
}

TEST(PoolSocket, CarriesDescriptorsAndRefusals) {
  const testing::TempDir dir;
  auto listening = ListenUnix(dir / "export");
  ASSERT_TRUE(listening.ok());
  const UniqueFd pool(memfd_create("pool", MFD_CLOEXEC));
  const UniqueFd board(memfd_create("board", MFD_CLOEXEC));
  std::thread manager([&] {
    for (int i = 0; i < 2; ++i) {
      const UniqueFd connection(accept(listening->get(), nullptr, nullptr));
      auto token = ReceiveExportToken(connection.get(), absl::Seconds(5));
      ASSERT_TRUE(token.ok()) << token.status();
      if (token->token == "right") {
        EXPECT_TRUE(SendPoolDescriptors(connection.get(), pool.get(), board.get()).ok());
      } else {
        SendExportRefusal(connection.get(), absl::PermissionDeniedError("export token: wrong"));
      }
    }
  });
  auto refused = FetchPoolDescriptors(dir / "export", "wrong");
  auto granted = FetchPoolDescriptors(dir / "export", "right");
  manager.join();
  EXPECT_EQ(refused.status(), absl::PermissionDeniedError("export token: wrong"));
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_EQ(Inode(granted->pool.get()), Inode(pool.get()));
  EXPECT_EQ(Inode(granted->score_board.get()), Inode(board.get()));
  EXPECT_EQ(FetchPoolDescriptors(dir / "nobody", "t").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace folio
