// Sockets and news between a program and the service manager that started it.
#include "services/runtime/service_manager.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/runtime/unix_socket.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using ::testing::ExitedWithCode;

// Runs `check` in a child that was started with `sockets` as descriptors 3, 4, ..., and expects it
// to return an empty string.
void ExpectInChild(const std::vector<int>& sockets, const std::string& count,
                   const std::function<std::string()>& check) {
  EXPECT_EXIT(
      {
        // Above all numbers that are written below.
        std::vector<int> copies;
        for (const int socket : sockets) copies.push_back(fcntl(socket, F_DUPFD, 100));
        for (size_t i = 0; i < copies.size(); ++i) dup2(copies[i], static_cast<int>(3 + i));
        setenv("LISTEN_PID", absl::StrCat(getpid()).c_str(), 1);
        setenv("LISTEN_FDS", count.c_str(), 1);
        const std::string wrong = check();
        if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
        std::_Exit(wrong.empty() ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST(InheritedSockets, AreFoundByTheirAddressOnce) {
  const testing::TempDir directory;
  const std::string path = directory.path() + "/a.sock";
  const auto unix_socket = ListenUnix(path);
  ASSERT_TRUE(unix_socket.ok()) << unix_socket.status();
  const UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(listen(tcp.get(), 1), 0);  // at a free port of every interface
  ExpectInChild({unix_socket->get(), tcp.get()}, "2", [&]() -> std::string {
    auto inherited = InheritedSockets::Take();
    if (!inherited.ok()) return inherited.status().ToString();
    if (std::getenv("LISTEN_FDS") != nullptr) return "the variables are still there";
    if (inherited->Find("unix:/another").valid()) return "found a socket that is not there";
    if (inherited->Find("unix:" + path).get() != 3) return "did not find the Unix socket";
    if (inherited->Find("unix:" + path).valid()) return "found it twice";
    const std::string unused(inherited->CheckAllUsed().message());
    return unused.find("0.0.0.0:") == std::string::npos ? "does not name the TCP socket" : "";
  });
}

TEST(InheritedSockets, AreNoneWhenTheVariablesAreForAnotherProcess) {
  ExpectInChild({}, "1", []() -> std::string {
    setenv("LISTEN_PID", "1", 1);
    const auto inherited = InheritedSockets::Take();
    return inherited.ok() && inherited->CheckAllUsed().ok() ? "" : "took sockets";
  });
  EXPECT_TRUE(InheritedSockets::Take().ok());
}

TEST(InheritedSockets, AreRefusedWhenTheyDoNotListen) {
  const UniqueFd connected(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const std::string count : {"1", "many", "-1", "1000"}) {
    ExpectInChild({connected.get()}, count, [&]() -> std::string {
      const absl::Status status = InheritedSockets::Take().status();
      const std::string wanted =
          count == "1" ? "LISTEN_FDS: descriptor 3 is not a listening socket"
                       : absl::StrCat("LISTEN_FDS: \"", count, "\" is not a number from 0 to 64");
      return status == absl::InvalidArgumentError(wanted) ? "" : status.ToString();
    });
  }
}

class NotifyTest : public ::testing::Test {
 protected:
  ~NotifyTest() override { unsetenv("NOTIFY_SOCKET"); }

  // Binds, tells the program, and returns what arrives after `NotifyServiceManager(state)`.
  std::string Arrives(const std::string& variable, const std::string& state) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::copy(variable.begin(), variable.end(), address.sun_path);
    if (variable[0] == '@') address.sun_path[0] = '\0';
    const UniqueFd receiver(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + variable.size());
    EXPECT_EQ(bind(receiver.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
    setenv("NOTIFY_SOCKET", variable.c_str(), 1);
    NotifyServiceManager(state);
    pollfd waiting = {receiver.get(), POLLIN, 0};
    if (poll(&waiting, 1, 5000) != 1) return "nothing";
    std::string text(100, '\0');
    text.resize(std::max<ssize_t>(0, recv(receiver.get(), text.data(), text.size(), 0)));
    return text;
  }
};

TEST_F(NotifyTest, ReachesASocketFile) {
  const testing::TempDir directory;
  EXPECT_EQ(Arrives(directory.path() + "/notify", "READY=1"), "READY=1");
}

TEST_F(NotifyTest, ReachesAnAbstractSocket) {
  EXPECT_EQ(Arrives(absl::StrCat("@folio-notify-", getpid()), "STOPPING=1"), "STOPPING=1");
}

TEST_F(NotifyTest, DoesNothingWithoutAServiceManager) {
  for (const std::string variable : {"/nowhere/notify", "relative", ""}) {
    setenv("NOTIFY_SOCKET", variable.c_str(), 1);
    NotifyServiceManager("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
  NotifyServiceManager("READY=1");
}

}  // namespace
}  // namespace folio
