// The program folio-manager: flags, sockets, signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "services/runtime/version.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"
#include "tests/manager/raw_grpc.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ManagerBinary : public ::testing::Test {
 protected:
  std::vector<std::string> Command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> argv = {FOLIO_MANAGER_BINARY, "--listen=" + address(),
                                     "--pool-bytes=64KiB"};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  std::string address() const { return "unix:" + (dir_ / "m.sock"); }
  bool SocketsGone() const {
    return !std::filesystem::exists(dir_ / "m.sock") &&
           !std::filesystem::exists(dir_ / "export.sock");
  }

  const TempDir dir_;
};

TEST_F(ManagerBinary, ServesUntilSigtermAndLeavesNothing) {
  ChildProcess manager(Command({"--listen=127.0.0.1:0", "--log-format=json"}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  EXPECT_EQ(*Health(address()), "SERVING");
  EXPECT_TRUE(std::filesystem::exists(dir_ / "export.sock"));
  // The port that was chosen is told, and serves as well.
  const std::string line = manager.ReadUntil("\"address\":\"127.0.0.1:");
  const size_t at = line.find("127.0.0.1:");
  ASSERT_NE(at, std::string::npos) << manager.output();
  EXPECT_EQ(*Health(line.substr(at, line.find('"', at) - at)), "SERVING");
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
  EXPECT_TRUE(SocketsGone());
  EXPECT_THAT(manager.output(), HasSubstr("\"message\":\"drained\",\"sequences_left\":0"));
}

TEST_F(ManagerBinary, DrainsUntilTheLastSequenceHasEnded) {
  ChildProcess manager(Command({"--drain_timeout=60s"}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, address(), "64", "600"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  manager.Signal(SIGINT);
  ASSERT_NE(manager.ReadUntil("draining sequences=1"), "") << manager.output();
  EXPECT_EQ(*Health(address()), "NOT_SERVING");
  EXPECT_EQ(TestWorker(address()).Attach().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(worker.Wait(), 0) << worker.output();
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
  EXPECT_THAT(manager.output(), HasSubstr("drained sequences_left=0"));
  EXPECT_TRUE(SocketsGone());
}

TEST_F(ManagerBinary, GivesUpDrainingWhenTheTimeIsOver) {
  ChildProcess manager(Command({"--drain_timeout=100ms"}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, address(), "64"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
  EXPECT_THAT(manager.output(), HasSubstr("drained sequences_left=1"));
  EXPECT_TRUE(SocketsGone());
}

TEST_F(ManagerBinary, ASecondSignalEndsAtOnce) {
  ChildProcess manager(Command({"--drain_timeout=1h"}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, address(), "64"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  manager.Signal(SIGTERM);
  ASSERT_NE(manager.ReadUntil("draining sequences=1"), "") << manager.output();
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
  EXPECT_THAT(manager.output(), HasSubstr("drained sequences_left=1"));
}

TEST_F(ManagerBinary, ReplacesTheSocketsOfADeadManagerAndRefusesALiveOnes) {
  ChildProcess first(Command());
  ASSERT_TRUE(WaitUntilServing(address())) << first.output();
  ChildProcess rival(Command());
  EXPECT_EQ(rival.Wait(), 1);
  EXPECT_THAT(rival.output(), HasSubstr("another process listens on " + (dir_ / "export.sock")));
  // Nor with an export socket of its own.
  ChildProcess second_rival(Command({"--export_socket=" + (dir_ / "other.sock")}));
  EXPECT_EQ(second_rival.Wait(), 1);
  EXPECT_THAT(second_rival.output(), HasSubstr("another process listens on " + (dir_ / "m.sock")));
  EXPECT_EQ(*Health(address()), "SERVING");

  first.Signal(SIGKILL);
  EXPECT_EQ(first.Wait(), 128 + SIGKILL);
  EXPECT_FALSE(SocketsGone());
  ChildProcess next(Command());
  ASSERT_TRUE(WaitUntilServing(address())) << next.output();
  TestWorker worker(address());
  worker.Join();
  EXPECT_TRUE(worker.Open(SmallOpen(16, 16)).ok());
}

TEST_F(ManagerBinary, LogsWhatBecomesOfAWorker) {
  // Sequences end with their worker.
  ChildProcess manager(Command({"--orphan_ttl=0s"}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, address(), "64"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  worker.Signal(SIGKILL);
  EXPECT_NE(manager.ReadUntil("pool created model=small pages=128"), "") << manager.output();
  EXPECT_NE(manager.ReadUntil("worker attached worker=w1 name=test-worker peer=unix:"), "")
      << manager.output();
  EXPECT_NE(manager.ReadUntil("session began worker=w1"), "") << manager.output();
  EXPECT_NE(manager.ReadUntil("worker fenced worker=w1"), "") << manager.output();
  EXPECT_THAT(manager.ReadUntil("pages quarantined"), HasSubstr(" pages=10 quarantined=10"));
  EXPECT_THAT(manager.ReadUntil("process ended worker=w1"), HasSubstr("pages_returned=10"));
}

TEST_F(ManagerBinary, EveryLineOfAJsonLogIsOneObject) {
  ChildProcess manager(Command({"--log_format=json", "--log_level=debug"}));
  ASSERT_TRUE(WaitUntilServing(address())) << manager.output();
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, address(), "64"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  worker.Signal(SIGKILL);
  ASSERT_NE(manager.ReadUntil("process ended"), "") << manager.output();
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
  const std::vector<std::string> lines = absl::StrSplit(manager.output(), '\n', absl::SkipEmpty());
  EXPECT_GT(lines.size(), 8U);
  for (const std::string& line : lines) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << line;
    for (const char* key : {"time", "level", "message"}) EXPECT_TRUE(json.contains(key)) << line;
  }
}

TEST_F(ManagerBinary, ReadsAFlagfile) {
  std::ofstream(dir_ / "flags") << "# of a service\n--listen=" << address()
                                << "\n--pool_bytes=1MiB\n--lease-ttl=3s\n";
  ChildProcess manager({FOLIO_MANAGER_BINARY, "--flagfile=" + (dir_ / "flags")});
  EXPECT_THAT(manager.ReadUntil("folio-manager started"),
              ::testing::AllOf(HasSubstr("pool_bytes=1048576"), HasSubstr("lease_ttl=3s")))
      << manager.output();
}

TEST_F(ManagerBinary, BadFlagsEndWithCodeTwoAndNameTheFix) {
  std::ofstream(dir_ / "flags") << "pool_bytes=1MiB\n";
  const std::string too_long = "unix:/" + std::string(150, 'x');
  const struct {
    std::vector<std::string> args;
    std::vector<std::string> words;
  } kCases[] = {
      {{"--pool_byte=1"}, {"unknown flag --pool_byte", "--help"}},
      {{"extra"}, {"unexpected argument \"extra\""}},
      {{"--pool_bytes=lots"}, {"--pool_bytes=lots", "2GiB"}},
      {{"--pool_bytes=-5"}, {"--pool_bytes=-5", "2GiB"}},
      {{"--pool_bytes=900TiB"}, {"--pool_bytes=900TiB", "give less"}},
      {{"--pool_bytes"}, {"--pool_bytes needs a value"}},
      {{"--listen="}, {"--listen="}},
      {{"--listen=nowhere"}, {"--listen=nowhere", "unix:/absolute/path or host:port"}},
      {{"--listen=unix:relative"}, {"--listen=unix:relative", "absolute"}},
      {{"--listen=" + too_long}, {"--listen=", "107"}},
      {{"--listen=localhost:99999"}, {"--listen=localhost:99999", "65535"}},
      {{"--listen=127.0.0.1:0,127.0.0.1:0"}, {"--listen=127.0.0.1:0", "twice"}},
      {{"--listen=unix:/tmp/a", "--export_socket=/tmp/a"},
       {"--export_socket=/tmp/a", "another path"}},
      {{"--export_socket=relative"}, {"--export_socket=relative", "absolute"}},
      {{"--lease_ttl=soon"}, {"--lease_ttl=soon", "10s"}},
      {{"--lease_ttl=1ms"}, {"--lease_ttl=1ms", "100ms to 1h"}},
      {{"--lease_ttl=inf"}, {"--lease_ttl=inf", "100ms to 1h"}},
      {{"--drain_timeout=-1s"}, {"--drain_timeout=-1s", "0 to 24h"}},
      {{"--kill_fenced_after=2d"}, {"--kill_fenced_after=2d", "10s"}},
      {{"--kill_fenced_after=25h"}, {"--kill_fenced_after=25h", "0 to 24h"}},
      {{"--log_format=xml"}, {"--log_format=xml", "text or json"}},
      {{"--log_level=loud"}, {"--log_level=loud", "debug, info, warning or error"}},
      {{"--flagfile=/nonexistent"}, {"--flagfile=/nonexistent", "cannot read"}},
      {{"--flagfile=" + (dir_ / "flags")}, {"line 1", "--name=value"}},
  };
  for (const auto& c : kCases) {
    std::vector<std::string> argv = {FOLIO_MANAGER_BINARY};
    argv.insert(argv.end(), c.args.begin(), c.args.end());
    ChildProcess manager(argv);
    EXPECT_EQ(manager.Wait(), 2) << c.args[0] << ": " << manager.output();
    for (const std::string& word : c.words) {
      EXPECT_THAT(manager.output(), HasSubstr(word)) << c.args[0];
    }
    EXPECT_THAT(manager.output(), Not(HasSubstr("check failed")));
  }
}

TEST_F(ManagerBinary, HelpAndVersionEndWell) {
  ChildProcess help({FOLIO_MANAGER_BINARY, "--help"});
  EXPECT_EQ(help.Wait(), 0);
  for (const char* flag : {"--listen", "--export_socket", "--device", "--pool_bytes", "--lease_ttl",
                           "--drain_timeout", "--log_format", "--log_level", "--flagfile"}) {
    EXPECT_THAT(help.output(), HasSubstr(flag));
  }
  ChildProcess version({FOLIO_MANAGER_BINARY, "--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_EQ(version.output(), "folio-manager " + BuildDescription() + "\n");
}

TEST_F(ManagerBinary, SaysWhenASocketCannotBeMade) {
  std::ofstream(dir_ / "file") << "x";
  ChildProcess manager({FOLIO_MANAGER_BINARY, "--listen=unix:" + (dir_ / "file") + "/m.sock",
                        "--export_socket=" + (dir_ / "e.sock"), "--pool_bytes=1MiB"});
  EXPECT_EQ(manager.Wait(), 1);
  EXPECT_THAT(manager.output(), HasSubstr(dir_ / "file"));
}

}  // namespace
}  // namespace folio::testing
