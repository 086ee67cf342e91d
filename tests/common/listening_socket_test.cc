// Sockets that listen, with real clients.
#include "services/runtime/listening_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include "services/runtime/unix_socket.h"
#include "tests/common/sockets.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using ::testing::AllOf;
using testing::ConnectTcp;
using testing::ConnectTo;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::UnixStream;

absl::StatusOr<ListeningSocket> Open(const std::string& address, mode_t mode = 0600) {
  return ListeningSocket::Open(*ParseListenAddress(address), mode);
}

std::string Words(const absl::StatusOr<ListeningSocket>& refused) {
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  return std::string(refused.status().message());
}

// The next connection, waited for.
UniqueFd Accept(const ListeningSocket& listening, size_t index = 0) {
  pollfd waiting = {listening.sockets().at(index).get(), POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 10000), 1);
  return UniqueFd(accept(waiting.fd, nullptr, nullptr));
}

bool HasIpv6() {
  const UniqueFd probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback = {};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  return bind(probe.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof(loopback)) == 0;
}

TEST(ListeningSocket, IsAUnixSocketWithItsModeUntilItEnds) {
  const TempDir directory;
  const std::string path = directory / "s";
  {
    const auto listening = Open("unix:" + path, 0640);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_EQ(listening->address().ToString(), "unix:" + path);
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0640U);
    EXPECT_NE(fcntl(listening->sockets().at(0).get(), F_GETFL) & O_NONBLOCK, 0);
    const UniqueFd client = UnixStream();
    ASSERT_TRUE(ConnectTo(client, path));
    EXPECT_TRUE(Accept(*listening).valid());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ListeningSocket, KnowsWhetherOtherMachinesMayReachIt) {
  const TempDir directory;
  for (const std::string& local :
       {"unix:" + (directory / "s"), std::string("127.0.0.1:0"), std::string("127.1.2.3:0"),
        std::string("localhost:0"), std::string(HasIpv6() ? "[::1]:0" : "localhost:0")}) {
    const auto listening = Open(local);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_FALSE(listening->is_open_to_network()) << local;
  }
  for (const char* open : {"0.0.0.0:0", "*:0"}) {
    const auto listening = Open(open);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_TRUE(listening->is_open_to_network()) << open;
  }
}

TEST(ListeningSocket, KeepsItsFileWhenItIsMoved) {
  const TempDir directory;
  auto opened = Open("unix:" + (directory / "s"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  {
    const ListeningSocket moved = *std::move(opened);
    opened = absl::UnknownError("the one that was moved from is gone");
    EXPECT_TRUE(ConnectTo(UnixStream(), directory / "s"));
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "s"));
}

TEST(ListeningSocket, ReplacesTheFileOfADeadProcessAndRefusesALiveOne) {
  const TempDir directory;
  const std::string path = directory / "s";
  { const auto dead = ListenUnix(path, 0600, SOCK_STREAM); }
  ASSERT_TRUE(std::filesystem::exists(path));
  const auto first = Open("unix:" + path);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Open("unix:" + path);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process listens"));
  EXPECT_TRUE(ConnectTo(UnixStream(), path));
}

TEST(ListeningSocket, NamesADirectoryThatDoesNotExist) {
  EXPECT_THAT(Words(Open("unix:/nonexistent/s")),
              AllOf(HasSubstr("cannot listen on /nonexistent/s: No such file"),
                    HasSubstr("its directory must exist")));
}

TEST(ListeningSocket, LeavesTheFileOfASocketThatItAdopts) {
  const TempDir directory;
  auto inherited = ListenUnix(directory / "s", 0600, SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_TRUE(inherited.ok()) << inherited.status();
  {
    const auto adopted = ListeningSocket::Adopt(*ParseListenAddress("unix:" + (directory / "s")),
                                                *std::move(inherited));
    EXPECT_TRUE(ConnectTo(UnixStream(), directory / "s"));
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "s"));
  EXPECT_FALSE(ConnectTo(UnixStream(), directory / "s"));
}

TEST(ListeningSocket, ListensOnTcpWithoutDelay) {
  const auto listening = Open("127.0.0.1:0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  ASSERT_NE(listening->address().port, 0);
  EXPECT_EQ(listening->address().host, "127.0.0.1");
  const UniqueFd client = ConnectTcp("127.0.0.1", listening->address().port);
  ASSERT_TRUE(client.valid());
  const UniqueFd accepted = Accept(*listening);
  int no_delay = 0;
  socklen_t length = sizeof(no_delay);
  ASSERT_EQ(getsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &length), 0);
  EXPECT_NE(no_delay, 0);
}

TEST(ListeningSocket, ListensOnIpv6) {
  const auto listening = Open("[::1]:0");
  if (!HasIpv6()) {
    EXPECT_THAT(Words(listening), HasSubstr("cannot listen on [::1]:0: "));
    return;
  }
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_TRUE(ConnectTcp("::1", listening->address().port).valid());
  EXPECT_FALSE(ConnectTcp("127.0.0.1", listening->address().port).valid());
}

TEST(ListeningSocket, EveryInterfaceIsOfBothFamilies) {
  for (const std::string address : {"*:0", "[::]:0", "0.0.0.0:0"}) {
    const auto listening = Open(address);
    ASSERT_TRUE(listening.ok()) << listening.status();
    const uint16_t port = listening->address().port;
    EXPECT_TRUE(ConnectTcp("127.0.0.1", port).valid()) << address;
    if (HasIpv6()) {
      EXPECT_TRUE(ConnectTcp("::1", port).valid()) << address;
    }
  }
}

TEST(ListeningSocket, ListensOnAllAddressesOfAName) {
  const auto listening = Open("localhost:0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  const uint16_t port = listening->address().port;
  EXPECT_TRUE(ConnectTcp("127.0.0.1", port).valid() || ConnectTcp("::1", port).valid());
  for (size_t i = 0; i < listening->sockets().size(); ++i) {
    sockaddr_in6 bound = {};  // the port is at the same place with both families
    socklen_t length = sizeof(bound);
    ASSERT_EQ(
        getsockname(listening->sockets()[i].get(), reinterpret_cast<sockaddr*>(&bound), &length),
        0);
    EXPECT_EQ(ntohs(bound.sin6_port), port);
  }
}

TEST(ListeningSocket, RefusesAPortThatAnotherOneListensOn) {
  const auto first = Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string port = absl::StrCat(first->address().port);
  for (const std::string host : {"127.0.0.1:", "*:", "0.0.0.0:"}) {
    EXPECT_THAT(Words(Open(host + port)),
                AllOf(HasSubstr(port + ": Address already in use"), HasSubstr("another port")));
  }
}

TEST(ListeningSocket, OpensAPortAgainAtOnce) {
  auto first = Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const ListenAddress address = first->address();
  const UniqueFd client = ConnectTcp("127.0.0.1", address.port);
  // The side that closes first keeps the port for a minute.
  { const UniqueFd accepted = Accept(*first); }
  first = absl::UnknownError("closed");
  const auto second = ListeningSocket::Open(address, 0);
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST(ListeningSocket, NamesAHostThatIsNotOurs) {
  // 192.0.2.0/24 is for documents.
  EXPECT_THAT(Words(Open("192.0.2.1:0")),
              AllOf(HasSubstr("cannot listen on 192.0.2.1:0: "), HasSubstr("* for all")));
  const std::string unknown(300, 'x');
  EXPECT_THAT(Words(Open(unknown + ":0")),
              AllOf(HasSubstr("the host is not known"), HasSubstr("* for all")));
}

}  // namespace
}  // namespace folio
